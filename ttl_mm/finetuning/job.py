"""A job: runs from pre-trained weights and, under the same budget, from random ones."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mmengine.config import Config

from ttl_mm.checkpoint.sealed import checkpoint_files, newest_valid
from ttl_mm.engine.runner.processes import RunEndedError, start_line, train_in_processes
from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import read_json
from ttl_mm.outputs import claim_job, write_json
from ttl_mm.planning.train_config import write_train_config

PRETRAINED, RANDOM = 'pre-trained', 'random'  # the starts
RESULT = 'result.json'  # of a run
Say = Callable[[str], None]


class Task(ABC):
    """What the runs of a job train, and how it is tested."""

    command: ClassVar[str]  # such as 'ttl detect train'
    use: ClassVar[str]  # the line that uses what was trained, up to --weights
    product: ClassVar[str]  # what a run ends with, such as 'detector'; its file has this name

    @property
    def file(self) -> str:
        """The name of the file that a run ends with."""
        return f'{self.product}.pth'

    @abstractmethod
    def config(self, folder: Path, seed: int, random: bool) -> Config:
        """The config of a run, from random weights or not; lists of images go into ``folder``."""

    @abstractmethod
    def write(self, checkpoint: Path, path: Path) -> None:
        """Write what a checkpoint holds without the state of its training."""

    @abstractmethod
    def test(self, path: Path, folder: Path) -> dict[str, Any]:
        """The result of a run, whose file is ``path``; pictures and such go into ``folder``."""

    def checkpoint(self, folder: Path) -> Path:
        """The checkpoint of a finished run that counts: by default the last.

        Raises:
            UserError: There is none.
        """
        newest, _ = newest_valid(folder)
        if newest is None:
            raise UserError(f'{folder} holds no checkpoint: delete the folder and start again.')
        return newest


@dataclass(frozen=True)
class Run:
    """A finished run."""

    start: str  # PRETRAINED or RANDOM
    seed: int
    folder: Path
    result: dict[str, Any]


@dataclass(frozen=True)
class Trained:
    """A finished job: its paths, and the figures of every start, from 0 to 1."""

    paths: dict[str, Path]  # out, page, and what was trained by its name
    figures: dict[str, dict[str, Any]]


def write_config(task: Task, path: str | Path, seed: int, say: Say) -> None:
    """Write the config of the first run instead of training.

    Raises:
        UserError: The file is there already.
    """
    path = Path(path)
    if path.exists():
        raise UserError(f'{path} exists: name another file with --config-out, or delete it.')
    cfg = task.config(path.with_name(f'{path.stem}_lists'), seed, random=False)
    write_train_config(cfg, path, f'Planned by {task.command}')
    say(f'{path}\nStart: {start_line(path)}')


def train_all(
    task: Task, out: str | Path, asked: Mapping[str, Any], seeds: Sequence[int], baseline: bool,
    say: Say,
) -> list[Run]:  # fmt: skip
    """Train and test once for every seed and start; what was done before is not done again.

    Args:
        task: What to train.
        out: Folder of the job.
        asked: All that changes what is computed; a job that was asked for something else is not
            continued.
        seeds: Of everything random.
        baseline: Whether to start from random weights, too.
        say: Receives the lines for the user.

    Raises:
        UserError: The folder holds something else.
        RunEndedError: A run was interrupted or stopped by a guard; the same call continues.
    """
    out = claim_job(out, task.command, {**asked, 'baseline': baseline})
    starts = (PRETRAINED, RANDOM) if baseline else (PRETRAINED,)
    order = [(seed, start) for seed in seeds for start in starts]
    runs = []
    for number, (seed, start) in enumerate(order, 1):
        folder = out / 'runs' / f'{start}_seed{seed}'
        if not (folder / RESULT).is_file():
            say(f'Run {number} of {len(order)}: {start}, seed {seed}.')
        runs.append(Run(start, seed, folder, finish(task, folder, seed, start == RANDOM)))
    return runs


def finish(task: Task, folder: Path, seed: int = 0, random: bool = False) -> dict[str, Any]:
    """The result of one run; it is trained and tested first, or continued, unless it is there.

    Raises:
        RunEndedError: Training was interrupted or stopped by a guard.
    """
    result, config, product = folder / RESULT, folder / 'plan' / 'config.py', folder / task.file
    if not result.is_file():
        if not config.is_file():
            cfg = task.config(config.parent, seed, random)
            write_train_config(cfg, config, f'Planned by {task.command}')
        if not product.is_file():
            if code := train_in_processes(config, folder):
                raise RunEndedError(folder, code)
            task.write(task.checkpoint(folder), product)
        write_json(task.test(product, folder), result)
        for path in checkpoint_files(folder):  # of a finished run nobody needs them
            path.unlink()
    return read_json(result)


def close(
    task: Task, best: Run, figures: Mapping[str, Any], write_page: Callable[[Path], Any],
    lines: Sequence[str], say: Say, files: Sequence[Path] = (),
) -> dict[str, Path]:  # fmt: skip
    """Keep what the best run has trained, write figures and page, and say what there is.

    Args:
        task: What was trained.
        best: The run that is kept.
        figures: For ``figures.json``.
        write_page: Writes the page of the job into its folder.
        lines: The table and the verdict; empty ones are left out.
        say: Receives them, and the paths.
        files: Others that the job has written.
    """
    out = best.folder.parents[1]
    paths = {task.product: out / task.file, **{file.stem: file for file in files},
             'page': out / 'page' / 'index.html'}  # fmt: skip
    shutil.copyfile(best.folder / task.file, paths[task.product])
    write_json(figures, out / 'figures.json', indent=1)
    if not paths['page'].is_file():
        write_page(out)
    say('\n'.join(line for line in lines if line))
    say('\n'.join(f'{name:12}{path}' for name, path in paths.items()))
    say(f'Use it: {task.use} --weights {paths[task.product]}')
    return {'out': out, **paths}


def verdict(name: str, values: Sequence[float]) -> str:
    """Which start is ahead by one figure, in a sentence; nothing without a baseline.

    >>> verdict('mIoU', [0.51, 0.4]).partition(':')[0]
    'The pre-trained start is ahead of random weights under the same budget'
    """
    if len(values) < 2:
        return ''
    ours, theirs = (100 * value for value in values)
    words = 'is ahead of' if ours > theirs else 'is not ahead of'
    return (
        f'The pre-trained start {words} random weights under the same budget: {name} {ours:.1f} '
        f'and {theirs:.1f} %. One run each: differences of a point or two may be chance.'
    )
