"""Images in a parquet file, as Hugging Face's datasets store them.

A column is compressed in groups of hundreds of rows, so one image cannot be read by itself. The
images are therefore copied once into a tar archive in the cache, which is read from then on.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

from ttl_mm.errors import UserError
from ttl_mm.files.archives.entry import check_name
from ttl_mm.files.archives.write_tar import write_tar
from ttl_mm.files.image_header import EXTENSIONS
from ttl_mm.files.regular import size_of

ROWS = 64  # read at once
# Images are compressed already. A parquet file can say in a few bytes that one of them comes a
# million times, so what it unpacks to has a limit: so many times its own size, and some more.
MAX_RATIO, MORE = 20, 2**26
_STARTS = ((b'\xff\xd8', '.jpg'), (b'\x89PNG', '.png'), (b'RIFF', '.webp'), (b'GIF8', '.gif'))


def parquet_to_tar(file: BinaryIO, target: Path) -> None:
    """Copy images, and labels if there is an integer column ``label``, into an archive.

    Raises:
        ValueError: It is no parquet file, damaged, or has no column of images.
        UserError: pyarrow is not installed.
    """
    if not find_spec('pyarrow'):
        raise UserError('parquet files need pyarrow: install it with `pip install pyarrow`.')
    import pyarrow
    import pyarrow.parquet

    try:
        schema = pyarrow.parquet.ParquetFile(file).schema_arrow
        column, leaf = _image_column(schema, pyarrow.types)
        # values that repeat stay numbers of a dictionary, in place of copies
        table = pyarrow.parquet.ParquetFile(file, read_dictionary=[leaf])
        most = MAX_RATIO * size_of(file) + MORE
        _check_unpacked(table.metadata, most)
        labeled = 'label' in schema.names and pyarrow.types.is_integer(schema.field('label').type)
        columns = [column, *(['label'] if labeled else [])]
        write_tar(target, _files(table.iter_batches(ROWS, columns=columns), column, most))
    except pyarrow.ArrowException as error:
        raise ValueError(f'it is no parquet file, or a damaged one: {error}') from None


def _check_unpacked(metadata: Any, most: int) -> None:
    """Refuse a file that claims more than ``most`` bytes, before any of it is unpacked.

    The metadata of single columns are not asked for: pyarrow 26 aborts where they are damaged.

    Raises:
        ValueError: It does.
    """
    claimed = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    if claimed > most:
        raise ValueError(f'it claims to unpack to {claimed} bytes, {most} are allowed')


def _image_column(schema: Any, types: Any) -> tuple[str, str]:
    """The column of images, binary or a struct with a binary field ``bytes``; and that field."""
    for field in schema:
        kind, leaf = field.type, field.name
        if types.is_struct(kind) and kind.get_field_index('bytes') >= 0:
            kind, leaf = kind.field('bytes').type, f'{field.name}.bytes'
        if types.is_binary(kind) or types.is_large_binary(kind):
            return field.name, leaf
    raise ValueError(f'it has no column of images, only {", ".join(schema.names)[:200]}')


def _files(batches: Iterator[Any], column: str, most: int) -> Iterator[tuple[str, bytes]]:
    row, left = 0, most
    for batch in batches:
        images = batch.column(column)
        labels = batch.column('label').to_pylist() if 'label' in batch.schema.names else None
        for i in range(len(images)):
            image, label = images[i].as_py(), labels[i] if labels else None
            content = image['bytes'] if isinstance(image, dict) else image
            path = image.get('path') if isinstance(image, dict) else None
            if content is not None:
                left -= len(content)
                if left < 0:
                    raise ValueError(f'its images unpack to more than {most} bytes')
                name = f'{row:09d}'
                yield name + _ending(content, path), content
                if label is not None:
                    yield f'{name}.cls', str(label).encode()
            row += 1


def _ending(content: bytes, path: Any) -> str:
    """What an image of this content is named, if its path does not tell."""
    ending = Path(check_name(path)).suffix.lower() if path and isinstance(path, str) else ''
    if ending in EXTENSIONS:
        return ending
    return next((end for start, end in _STARTS if content.startswith(start)), '.png')
