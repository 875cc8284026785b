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

ROWS = 64  # read at once
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
        table = pyarrow.parquet.ParquetFile(file)
        schema = table.schema_arrow
        column = _image_column(schema, pyarrow.types)
        labeled = 'label' in schema.names and pyarrow.types.is_integer(schema.field('label').type)
        columns = [column, *(['label'] if labeled else [])]
        write_tar(target, _files(table.iter_batches(ROWS, columns=columns), column))
    except pyarrow.ArrowException as error:
        raise ValueError(f'it is no parquet file, or a damaged one: {error}') from None


def _image_column(schema: Any, types: Any) -> str:
    """The column of images: binary, or a struct with a binary field ``bytes``."""
    for field in schema:
        kind = field.type
        if types.is_struct(kind) and kind.get_field_index('bytes') >= 0:
            kind = kind.field('bytes').type
        if types.is_binary(kind) or types.is_large_binary(kind):
            return field.name
    raise ValueError(f'it has no column of images, only {", ".join(schema.names)[:200]}')


def _files(batches: Iterator[Any], column: str) -> Iterator[tuple[str, bytes]]:
    row = 0
    for batch in batches:
        for record in batch.to_pylist():
            image, label = record[column], record.get('label')
            content = image['bytes'] if isinstance(image, dict) else image
            path = image.get('path') if isinstance(image, dict) else None
            if content is not None:
                name = f'{row:09d}'
                yield name + _ending(content, path), content
                if label is not None:
                    yield f'{name}.cls', str(label).encode()
            row += 1


def _ending(content: bytes, path: str | None) -> str:
    """What an image of this content is named, if its path does not tell."""
    ending = Path(check_name(path)).suffix.lower() if path else ''
    if ending in EXTENSIONS:
        return ending
    return next((end for start, end in _STARTS if content.startswith(start)), '.png')
