"""Make mmengine and mmcv read files of strangers as we do, from the first import of the registry.

mmengine reads annotation files, lists and images through a storage backend and a handler per
ending. Its YAML and pickle handlers run what a file says, its backend waits for ever at a named
pipe, and mmcv decodes an image of any size. Each is replaced through mmengine's own registries, and
``mmcv.imfrombytes``, for which there is none, by assignment.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import mmcv
import mmengine.fileio as fileio
import yaml  # type: ignore[import-untyped]
from mmengine.fileio.handlers import JsonHandler, PickleHandler, YamlHandler

from ttl_mm.errors import UserError
from ttl_mm.files.archives.member import read_image_file
from ttl_mm.files.image_header import check_image
from ttl_mm.files.plain_json import parse_json
from ttl_mm.files.regular import ANNOTATIONS, open_regular


class RegularFilesBackend(fileio.LocalBackend):
    """Reads regular files only, and none that is larger than any annotation file."""

    def get(self, filepath: str | Path) -> bytes:
        return _sentence(read_image_file, filepath)

    def get_text(self, filepath: str | Path, encoding: str = 'utf-8') -> str:
        try:
            text = self.get(filepath).decode(encoding)
        except UnicodeDecodeError as error:
            raise UserError(f'{filepath} is no text: {error}.') from error
        return text.removeprefix('\ufeff').replace('\r\n', '\n')

    @contextmanager
    def get_local_path(self, filepath: str | Path) -> Iterator[str | Path]:
        _sentence(lambda path, limit: open_regular(path, limit).close(), filepath)
        yield filepath


def _sentence(read: Callable, path: str | Path) -> Any:
    try:
        return read(path, ANNOTATIONS)
    except FileNotFoundError:
        raise  # which mmengine and mmpretrain expect
    except OSError as error:
        raise UserError(f'{path} cannot be read: {error.strerror}.') from error


class PlainJsonHandler(JsonHandler):
    """JSON of bounded nesting and numbers."""

    def load_from_fileobj(self, file: Any, **kwargs: Any) -> Any:
        try:
            return parse_json(file.read(), allow_nan=True)
        except ValueError as error:
            raise UserError(f'a JSON file is refused: {error}.') from error


class _BoundedLoader(yaml.SafeLoader):
    """Plain values only; ``<<`` may copy so many entries of other mappings in all."""

    left, depth = 100_000, 0

    def flatten_mapping(self, node: Any) -> None:
        """Put merged entries into a mapping; PyYAML calls it for each that is merged, too."""
        self.depth += 1
        super().flatten_mapping(node)
        self.depth -= 1
        if self.depth:
            self.left -= len(node.value)
        if self.left < 0:  # ten lines could stand for billions of entries
            raise yaml.YAMLError('it merges mappings again and again')


class PlainYamlHandler(YamlHandler):
    """YAML that can only describe numbers, text, lists and mappings."""

    def load_from_fileobj(self, file: Any, **kwargs: Any) -> Any:
        try:
            return _BoundedLoader(file).get_single_data()
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f'a YAML file is refused: {first}.') from error


class NoPickleHandler(PickleHandler):
    """Writes pickles and reads none."""

    def load_from_fileobj(self, file: Any, **kwargs: Any) -> Any:
        raise UserError('a pickled file is refused, because it can run code: use JSON or text.')

    def load_from_path(self, filepath: str | Path, **kwargs: Any) -> Any:
        self.load_from_fileobj(filepath)


def use_safe_files() -> None:
    """From now on mmengine and mmcv read files of this process as data, within bounds."""
    fileio.register_backend('local', RegularFilesBackend, force=True, prefixes='')
    fileio.FileClient.register_backend('disk', RegularFilesBackend, force=True)
    fileio.io.backend_instances.clear()  # those that were made before
    fileio.register_handler('json')(PlainJsonHandler)
    fileio.register_handler(['yaml', 'yml'])(PlainYamlHandler)
    fileio.register_handler(['pickle', 'pkl'])(NoPickleHandler)
    for module in (mmcv, mmcv.image, mmcv.image.io):
        module.imfrombytes = _checked(mmcv.image.io.imfrombytes)


def _checked(decode: Callable) -> Callable:
    """``mmcv.imfrombytes`` that looks at the header first; ``imread`` calls it, too."""
    if hasattr(decode, '__wrapped__'):
        return decode

    @wraps(decode)
    def imfrombytes(content: bytes, *args: Any, **kwargs: Any) -> Any:
        try:
            check_image(bytes(content))
        except ValueError as error:
            raise UserError(f'an image is refused: {error}.') from error
        return decode(content, *args, **kwargs)

    return imfrombytes
