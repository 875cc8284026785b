"""Where commands write: nothing is replaced that the same command did not write itself."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import parse_json, read_json
from ttl_mm.files.regular import read_text

REQUEST = 'request.json'  # in the folder of a job: what it was asked for
MARK = '.ttl_mm'  # in a folder: the names of the commands that have written into it


def claim_file(path: str | Path, overwrite: bool = False, source: str | Path | None = None) -> Path:
    """``path``, if a file may be written there.

    Args:
        path: The file to write.
        overwrite: Whether an existing regular file may be replaced.
        source: The file that is read to write it, which is never replaced.

    Raises:
        UserError: It exists; or it is a device, a link to nowhere, or the source itself.
    """
    path = Path(path)
    if not (path.exists() or path.is_symlink()):
        return path
    if source is not None and Path(source).exists() and path.exists() and path.samefile(source):
        raise UserError(f'{path} is the file that is read: name another one with --out.')
    if not path.is_file():
        raise UserError(f'{path} is no regular file: name another one with --out.')
    if not overwrite:
        raise UserError(f'{path} exists: name another file with --out, or add --overwrite.')
    return path


def check_folder(
    folder: str | Path, command: str, names: Sequence[str], overwrite: bool = False
) -> None:
    """Refuse a folder in which ``command`` would replace what it did not write.

    Args:
        folder: Where it will write; nothing is made here.
        command: Its name.
        names: Patterns of the files that it may write.
        overwrite: Whether to replace them all the same.

    Raises:
        UserError: Some of these files are there, and the command has not marked the folder.
    """
    folder = Path(folder)
    if overwrite or not folder.is_dir() or command in _writers(folder):
        return
    found = sorted(path.name for pattern in names for path in folder.glob(pattern))
    if found:
        raise UserError(
            f'{folder} holds {found[0]}, which `{command}` did not write: name another folder '
            'with --out, or add --overwrite.'
        )


def mark_folder(folder: str | Path, command: str) -> None:
    """Note that ``command`` has written into this folder, so that it may do so again."""
    writers = _writers(Path(folder))
    if command not in writers:
        Path(folder, MARK).write_text('\n'.join([*writers, command]) + '\n')


def claim_folder(folder: str | Path, command: str, overwrite: bool = False) -> Path:
    """Make a folder for one command alone: whatever another one left there is in the way."""
    check_folder(folder, command, ['[!.]*'], overwrite)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mark_folder(folder, command)
    return folder


@contextmanager
def claimed_folder(folder: str | Path, command: str, overwrite: bool = False) -> Iterator[Path]:
    """As :func:`claim_folder`, but a command that fails before it has written leaves no folder."""
    folder = Path(folder)
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    before = {path.name for path in folder.glob('*')}
    claim_folder(folder, command, overwrite)
    try:
        yield folder
    except BaseException:
        if {path.name for path in folder.glob('*')} == before | {MARK} and MARK not in before:
            (folder / MARK).unlink()
            with suppress(OSError):  # somebody else has put something there
                for path in missing:
                    path.rmdir()
        raise


def write_json(content: Any, path: Path, indent: int | None = None) -> None:
    """Write a file that appears complete or not at all."""
    partial = path.with_name(f'{path.name}.partial')
    partial.write_text(json.dumps(content, indent=indent) + '\n')
    partial.replace(path)


def claim_job(folder: str | Path, command: str, request: Mapping[str, Any]) -> Path:
    """Make or enter the folder of a job of several runs, which the same line continues.

    Args:
        folder: Where all of it is written.
        command: Its name.
        request: Options by their names, as plain values; those that change what is computed.

    Raises:
        UserError: The folder holds something else, or a job that was asked for something else.
    """
    folder = claim_folder(folder, command)
    path, now = folder / REQUEST, parse_json(json.dumps(dict(request)))
    if not path.is_file():
        write_json(now, path, indent=2)
        return folder
    try:
        before = read_json(path)
        if not isinstance(before, dict):
            raise ValueError('it is no request')
    except (OSError, ValueError) as error:
        raise UserError(f'{path} cannot be read ({error}): choose another --out.') from error
    for name in sorted({*now, *before}):
        if now.get(name) != before.get(name):
            old, new = (_shown(values.get(name)) for values in (before, now))
            raise UserError(
                f'{folder} holds a job with {name} {old}, and this line asks for {new}: choose '
                'another folder with --out, or repeat the line that started it to continue.'
            )
    return folder


def _shown(value: Any) -> str:
    return 'left open' if value is None else str(value)


def _writers(folder: Path) -> list[str]:
    try:
        return read_text(folder / MARK, 10_000).splitlines()
    except (OSError, ValueError):  # none, or a file of others
        return []
