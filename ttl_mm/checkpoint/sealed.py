r"""Checkpoint files that are complete or absent, and in which any damage is detected.

The file is what ``torch.save`` writes, with one line of JSON behind it::

    <zip archive of torch.save>\n{"ttl_mm": 1, "iter": 300, "epoch": 3, "sha256": "..."}\n

``torch.load`` and other zip readers ignore such a line. The hash covers everything else in the
file, and the numbers in the line.
"""

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import torch

from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import parse_json
from ttl_mm.files.regular import WEIGHTS, open_regular

FORMAT = 1
_TRAILER_BYTES = 512  # more than a trailer can have
_TEMPORARY = '.partial'
NAMES = ('epoch_*.pth', 'iter_*.pth', 'best_*.pth')


class SealLine(NamedTuple):
    """The last line of a checkpoint: where the run was, and what the file must hash to."""

    iteration: int
    epoch: int
    sha256: str
    size: int  # bytes before the line
    generation: int = 0  # how often other batches renumbered the iterations


class DamagedError(UserError):
    """A checkpoint file whose content is not what was written."""


def write_checkpoint(
    path: Path, state: Mapping[str, Any], iteration: int, epoch: int, generation: int = 0
) -> None:
    """Write ``state`` so that a crash at any moment leaves the old file or the new one.

    Raises:
        UserError: The disk is full or not writable. What was at ``path`` is untouched.
    """
    temporary = path.with_name(f'{path.name}.{uuid4().hex}{_TEMPORARY}')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)  # somebody may have moved it away
        with open(temporary, 'wb') as file:
            hashing: Any = _HashingFile(file)
            torch.save(state, hashing)
            where = (iteration, epoch, generation)
            hashing.sha256.update(_line(*where))
            file.write(b'\n' + _line(*where, hashing.sha256.hexdigest()))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except (OSError, RuntimeError) as error:  # torch turns a failed write into a RuntimeError
        cause = error if isinstance(error, OSError) else error.__context__
        if not isinstance(cause, OSError):
            raise
        raise UserError(
            f'the checkpoint {path} could not be written ({cause.strerror}): make room or choose '
            'another work_dir, then resume; the checkpoints before it are untouched.'
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _line(iteration: int, epoch: int, generation: int, sha256: str | None = None) -> bytes:
    seal: dict[str, Any] = {'ttl_mm': FORMAT, 'iter': iteration, 'epoch': epoch}
    if generation:
        seal['generation'] = generation
    seal['sha256'] = sha256
    return json.dumps(seal).encode() + b'\n'


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where the file system can do that."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems
            raise
    finally:
        os.close(handle)


def read_seal(path: Path) -> SealLine:
    """The last line of a checkpoint, without reading the rest.

    Raises:
        DamagedError: There is none: the file is cut short, or not one of ours.
    """
    try:
        with open_regular(path, WEIGHTS) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TRAILER_BYTES))
            tail = file.read()
        line = tail[tail.rindex(b'\n{') + 1 :]
        seal = parse_json(line)
        where, sha256 = (seal['iter'], seal['epoch'], seal.get('generation', 0)), seal['sha256']
        if line != _line(*where, sha256) or any(type(number) is not int for number in where):
            raise ValueError('not as we would write it')
        return SealLine(*where[:2], sha256, size - len(line) - 1, where[2])
    except OSError as error:
        raise DamagedError(f'{path} cannot be read ({error.strerror})') from error
    except (ValueError, KeyError, TypeError):
        raise DamagedError(f'{path} has no seal: it is cut short, or not from ttl_mm') from None


def verify(path: Path) -> SealLine:
    """Read the whole file and compare it with its seal."""
    seal = read_seal(path)
    sha256, left = hashlib.sha256(), seal.size
    try:
        with open_regular(path, WEIGHTS) as file:
            while left and (chunk := file.read(min(left, 1 << 22))):
                sha256.update(chunk)
                left -= len(chunk)
    except OSError as error:
        raise DamagedError(f'{path} cannot be read ({error.strerror})') from error
    sha256.update(_line(seal.iteration, seal.epoch, seal.generation))
    if sha256.hexdigest() != seal.sha256:
        raise DamagedError(f'{path} is damaged: its content does not match its sha256')
    return seal


def read_sealed(path: Path) -> dict[str, Any]:
    """The content of a checkpoint of ours, tensors on the CPU; nothing in it is executed."""
    verify(path)
    return read_checkpoint(path)


def checkpoint_files(folder: Path) -> list[Path]:
    """Everything in a folder that bears the name of a checkpoint, whole or not."""
    return sorted(path for pattern in NAMES for path in folder.glob(pattern))


def sealed_files(folder: Path) -> list[tuple[Path, SealLine]]:
    """The checkpoints in a folder that carry a seal, newest first."""
    return _read_seals(folder)[0]


def _read_seals(folder: Path) -> tuple[list[tuple[Path, SealLine]], list[str]]:
    """The checkpoints with a seal, newest first, and what is wrong with the others."""
    found, problems = [], []
    for path in checkpoint_files(folder):
        try:
            found.append((path, read_seal(path)))
        except DamagedError as error:
            problems.append(str(error))
    newest = attrgetter('generation', 'iteration', 'epoch')
    found.sort(key=lambda entry: newest(entry[1]), reverse=True)
    return found, problems


def newest_valid(folder: Path) -> tuple[Path | None, list[str]]:
    """The newest checkpoint that is whole, and what is wrong with newer ones.

    Raises:
        UserError: There are checkpoints, and none is whole.
    """
    found, problems = _read_seals(folder)
    for path, _ in found:
        try:
            verify(path)
        except DamagedError as error:
            problems.append(str(error))
        else:
            return path, problems
    if problems:
        raise UserError(
            f'no checkpoint in {folder} can be resumed: {"; ".join(problems)}. Choose another '
            'work_dir to start over, or give a whole file with --resume PATH.'
        )
    return None, []


def remove_leftovers(folder: Path) -> None:
    """Delete what interrupted saves left behind."""
    for path in folder.glob(f'*{_TEMPORARY}'):
        path.unlink(missing_ok=True)


class _HashingFile:
    """Passes writes on and hashes them; ``torch.save`` writes from front to back."""

    def __init__(self, file) -> None:
        self.file = file
        self.sha256 = hashlib.sha256()

    def write(self, data) -> int:
        self.sha256.update(data)
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()
