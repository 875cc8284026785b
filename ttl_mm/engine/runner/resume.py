"""How a run continues: the whole way from choosing a file to the next batch.

1. :func:`choose_checkpoint`, from ``Runner.setup_env``: rank 0 locks the work dir, picks the file
   and tells the others.
2. ``Runner.set_randomness`` takes the seed of the checkpoint, if the config has none.
3. ``Runner.train`` builds model, loop, optimizer and schedules as for any run.
4. :func:`continue_run`, from ``Runner.resume``: weights, optimizer, schedules, log, hooks and
   gradients not applied yet (:func:`~ttl_mm.engine.state.train_state.restore`), schedules that the
   config changed (:mod:`ttl_mm.engine.runner.schedule`), then the position of the loop.
5. The loop restores the random generators just before it asks for the next batch.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmengine.dist import is_main_process

from ttl_mm.checkpoint.coverage import load_state
from ttl_mm.checkpoint.sealed import checkpoint_files, newest_valid, read_sealed, sealed_files
from ttl_mm.compat.mmengine_private import silence_lost_gradients
from ttl_mm.datasets.data_report import shorten
from ttl_mm.datasets.epoch_order import EpochOrder, archives_of
from ttl_mm.datasets.image_list import list_path, match_lists, read_list, write_list
from ttl_mm.datasets.train_loader import BegunEpoch
from ttl_mm.ending import system_error
from ttl_mm.engine.runner.loop import Position
from ttl_mm.engine.runner.resume_check import differences
from ttl_mm.engine.runner.schedule import NewSchedule, check_optimizer, schedule_changed
from ttl_mm.engine.runner.step_size import StepSize
from ttl_mm.engine.state.control_group import from_first
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.run_ranks import RunRanks
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.engine.state.train_state import check_state, restore, saved_gradients
from ttl_mm.engine.state.work_dir_lock import WorkDirLock
from ttl_mm.errors import UserError
from ttl_mm.outputs import MARK, mark_folder


@dataclass
class ResumePoint:
    """What a run continues from: nothing, or a checkpoint and why newer ones were passed over."""

    path: Path | None = None
    passed_over: list[str] = field(default_factory=list)
    checkpoint: dict[str, Any] | None = None


def choose_checkpoint(cfg, work_dir: Path, lock: WorkDirLock | None) -> ResumePoint:
    """The checkpoint that ``cfg.resume`` asks for, the same on every rank; collective.

    Args:
        cfg: The config.
        work_dir: Where the run will write.
        lock: Its lock, which rank 0 takes first; None for a run that does not train.

    Raises:
        UserError: Another run holds the work dir, no file is whole, or the work_dir has files of
            others or checkpoints and nobody asked to resume.
    """
    choice: Any = None
    if is_main_process():
        try:
            if lock is not None:
                lock.acquire()
                check_work_dir(cfg, work_dir)
            choice = _look_for_checkpoint(cfg, work_dir)
            if lock is not None:
                mark_folder(work_dir, 'tools/train.py')
        except (UserError, OSError) as error:
            choice = error
            if isinstance(error, OSError):
                choice = UserError(f'{work_dir} cannot be used: {system_error(error) or error}')
            if lock is not None:
                lock.release()
    choice = from_first(choice)
    if isinstance(choice, UserError):
        raise choice
    path, passed_over = choice
    if path is None:
        return ResumePoint(None, passed_over)
    checkpoint = read_sealed(path)
    check_state(checkpoint, str(path))
    return ResumePoint(path, passed_over, checkpoint)


def check_work_dir(cfg, work_dir: Path) -> None:
    """Refuse a folder in which a new run would replace files that no run of ours wrote.

    Raises:
        UserError: Checkpoints that may be anything, or a file where the config will be written.
    """
    found = checkpoint_files(work_dir)
    if found and not cfg.get('resume'):
        seals = sealed_files(work_dir)
        reached = f' of a run that reached iteration {seals[0][1].iteration}' if seals else ''
        raise UserError(
            f'{work_dir} has checkpoints{reached} ({found[0].name}): add --resume to continue, or '
            'choose another --work-dir.'
        )
    ours = (work_dir / MARK).exists() or found or any(work_dir.glob('*/vis_data'))
    copy = work_dir / Path(cfg.filename or 'config.py').name
    if copy.exists() and not ours:
        raise UserError(
            f'{work_dir} is no work dir, and its {copy.name} would be overwritten: choose another '
            '--work-dir.'
        )


def _look_for_checkpoint(cfg, work_dir: Path) -> tuple[Path | None, list[str]]:
    resume = cfg.get('resume')
    if not resume:
        return None, []
    # mmengine spells a path as resume=True with load_from; 'auto' leaves load_from to the
    # first start, when there is nothing to resume yet
    path = resume if isinstance(resume, str) else cfg.get('load_from')
    if path and path != 'auto':
        return Path(path), []
    return newest_valid(work_dir)


def load_resumed_weights(runner, checkpoint: dict[str, Any], filename: str) -> None:
    """Load the model of a run that goes on: every tensor must fit."""
    runner.call_hook('after_load_checkpoint', checkpoint=checkpoint)
    load_state(
        unwrap_model(runner.model),
        checkpoint['state_dict'],
        filename,
        remedy='The config describes another model than the checkpoint: choose another '
        '--work-dir, or start from its weights with load_from.',
    )


def continue_run(runner, checkpoint: dict[str, Any], filename: str) -> None:
    """Put everything back where ``checkpoint`` was saved; say what is no longer the same."""
    load_resumed_weights(runner, checkpoint, filename)
    own, loop = checkpoint['ttl_mm'], runner.train_loop
    check_optimizer(own['config'], runner.cfg)
    step = StepSize(runner, own)
    loop.images_per_step, loop.images_per_iteration = step.images, step.per_iteration
    loop.stretch = step.stretch
    now = RunSettings.of(runner)
    epoch, iteration = checkpoint['meta']['epoch'], checkpoint['meta']['iter']
    position = position_of(own, epoch, iteration, loop.counts_epochs)
    batches = loop.dataloader.batch_sampler
    batches.begun = begun_epoch(runner, position, Path(filename).parent)
    if batches.begun is None:
        position = loop.position._replace(epoch=position.epoch, taken=position.taken)
    if loop.counts_epochs:
        # an epoch ends at a multiple of its length, which may be another one now
        left = batches.set_position(position.epoch, position.taken)
        iteration = max(0, (epoch + 1) * now.iterations_per_epoch - left)
    else:
        iteration = step.iteration(iteration)
        loop.end_after(math.ceil(loop.max_iters * step.stretch - 1e-9))
    # fewer iterations than before must not make the next checkpoint look older than this one
    renumbered = iteration != checkpoint['meta']['iter']
    loop.generation = own.get('generation', 0) + renumbered
    schedule = None
    changed = step.rate != step.rate_before or step.stretch != step.stretch_before
    if renumbered or changed or schedule_changed(own['config'], runner.cfg):
        step.scale(runner)
        schedule = NewSchedule(runner, epoch, iteration, now.iterations_per_epoch)
    restore(runner, checkpoint)
    for difference in differences(own, now, runner.cfg):
        runner.logger.warning(difference)
    if step.sentence:
        counted_on = '' if loop.counts_epochs else step.in_words(iteration, loop.max_iters)
        runner.logger.warning(step.sentence + counted_on)
    if sentence := other_group(own, loop.ranks, now.batch_size_per_rank):
        runner.logger.warning(sentence)
    if schedule is not None:
        runner.logger.warning(schedule.put_back(runner))
    ranks = loop.ranks
    same_ranks = ranks.ranks == len(own['ranks'])
    rng = [own['ranks'][rank]['rng'] for rank in ranks.mine] if same_ranks else ()
    loop.resume_at(epoch, iteration, position, own['validated'], rng)
    if same_ranks and saved_gradients(own, ranks.process):
        silence_lost_gradients(runner.optim_wrapper)
    runner.logger.info(f'resumed {filename} at epoch {runner.epoch}, iteration {runner.iter}')


def other_group(own: Mapping[str, Any], ranks: RunRanks, batch: int) -> str:
    """That other images are normalized together from here on; '' if they are the same, or if the
    log says so already because a process does the work of several ranks.
    """
    before = own.get('processes')
    if before in (None, ranks.processes) or ranks.parts > 1:
        return ''
    return (
        f'SyncBN normalizes {ranks.processes} x {batch} images together from here on, in place of '
        f'{before} x {batch}; gather_negatives takes the negatives of those.'
    )


def position_of(own: Mapping[str, Any], epoch: int, iteration: int, by_epoch: bool) -> Position:
    """The place in the data that a checkpoint was saved at."""
    if 'position' in own:
        return Position(**own['position'])
    before = RunSettings.from_saved(own['settings'])  # of an earlier version
    if by_epoch:
        steps = iteration - epoch * before.iterations_per_epoch
    else:
        epoch, steps = divmod(iteration, before.iterations_per_epoch)
    return Position(epoch, steps * max(1, before.batch_size))


def begun_epoch(runner, position: Position, folder: Path) -> BegunEpoch | None:
    """How the rest of the epoch goes on if there are other images now, or another window to
    shuffle them in; the log says so.

    Images that were removed are left out; new ones join with the next epoch.

    Args:
        runner: Whose training loop is built.
        position: The place of the checkpoint.
        folder: Where the checkpoint lies, and beside it its list of images.
    """
    loop, log = runner.train_loop, runner.logger
    if not position.images or loop.names is None:
        return None
    names, new_index = loop.names, None
    if position.images != loop.image_list:
        old = read_list(folder, position.images)
        if old is None:
            log.warning(
                f'The images have changed since, and {list_path(folder, position.images)} is '
                'missing or damaged: which of them this epoch has seen is not known.'
            )
            return None
        match = match_lists(old, loop.names)
        names, new_index = old, match.new_index
        gone = int((match.new_index < 0).sum())
        removed = f' ({shorten(match.removed, gone)})' if gone else ''
        log.warning(
            f'The images have changed since: {gone:,} removed{removed}, {match.added:,} added, '
            'which join at the next epoch.'
        )
        if is_main_process():  # this epoch may be interrupted once more
            write_list(Path(runner.work_dir), position.images, old)
    elif position.window == loop.position.window or not position.taken:
        return None
    else:
        log.warning(
            f'The window to shuffle images in was {position.window or len(names):,} and is '
            f'{loop.position.window or len(names):,} from the next epoch on.'
        )
    archives = archives_of(names) if position.window else None
    shuffle = getattr(loop.dataloader.batch_sampler.sampler, 'shuffle', True)
    order = EpochOrder(len(names), shuffle, position.window if archives else 0, archives)
    return BegunEpoch(position.epoch, order, new_index)


def keep_image_list(runner) -> None:
    """Write the list of images into the work dir, for the resume that may come."""
    loop = runner.train_loop
    if loop.names is None or not is_main_process():
        return
    try:
        write_list(Path(runner.work_dir), loop.image_list, loop.names)
    except OSError as error:
        runner.logger.warning(
            f'the list of images is not kept ({error.strerror}): a resumed run will not know '
            'whether they have changed.'
        )
