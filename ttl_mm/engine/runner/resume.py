"""How a run continues: the whole way from choosing a file to the next batch.

1. :func:`choose_checkpoint`, from ``Runner.setup_env``: rank 0 picks the file and tells the others.
2. ``Runner.set_randomness`` takes the seed of the checkpoint, if the config has none.
3. ``Runner.train`` builds model, loop, optimizer and schedules as for any run.
4. :func:`continue_run`, from ``Runner.resume``: weights, optimizer, schedules, log, hooks and
   gradients not applied yet (:func:`~ttl_mm.engine.state.train_state.restore`), then the position
   of the loop.
5. The loop restores the random generators just before it asks for the next batch.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmengine.dist import get_dist_info, is_main_process

from ttl_mm.checkpoint.coverage import load_state
from ttl_mm.checkpoint.sealed import newest_valid, read_sealed, sealed_files
from ttl_mm.compat.mmengine_private import silence_lost_gradients
from ttl_mm.engine.runner.resume_check import differences
from ttl_mm.engine.state.control_group import from_first
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.engine.state.train_state import restore
from ttl_mm.errors import UserError


@dataclass
class ResumePoint:
    """What a run continues from: nothing, or a checkpoint and why newer ones were passed over."""

    path: Path | None = None
    passed_over: list[str] = field(default_factory=list)
    checkpoint: dict[str, Any] | None = None


def choose_checkpoint(cfg, work_dir: Path) -> ResumePoint:
    """The checkpoint that ``cfg.resume`` asks for, the same on every rank; collective.

    Raises:
        UserError: No file is whole, or the work_dir has checkpoints and nobody asked to resume.
    """
    choice: Any = None
    if is_main_process():
        try:
            choice = _look_for_checkpoint(cfg, work_dir)
        except UserError as error:
            choice = error
    choice = from_first(choice)
    if isinstance(choice, UserError):
        raise choice
    path, passed_over = choice
    return ResumePoint(path, passed_over, read_sealed(path) if path else None)


def _look_for_checkpoint(cfg, work_dir: Path) -> tuple[Path | None, list[str]]:
    resume = cfg.get('resume')
    if not resume:
        existing = sealed_files(work_dir)
        if existing and cfg.get('train_cfg'):
            raise UserError(
                f'{work_dir} has checkpoints of a run that reached iteration '
                f'{existing[0][1].iteration}: add --resume to continue it, or choose another '
                '--work-dir.'
            )
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
    restore(runner, checkpoint)
    own, now = checkpoint['ttl_mm'], RunSettings.of(runner)
    for difference in differences(own, now, runner.cfg):
        runner.logger.warning(difference)
    rank, world_size = get_dist_info()
    same_ranks = world_size == len(own['ranks'])
    epoch, iteration = checkpoint['meta']['epoch'], checkpoint['meta']['iter']
    if runner.train_loop.counts_epochs:
        # at the same share of an epoch, whose length may be another one now
        before = RunSettings.from_saved(own['settings']).iterations_per_epoch
        share = iteration - epoch * before
        iteration = epoch * now.iterations_per_epoch + share * now.iterations_per_epoch // before
    rng = own['ranks'][rank]['rng'] if same_ranks else None
    runner.train_loop.resume_at(epoch, iteration, own['validated'], rng)
    if same_ranks and own['ranks'][rank]['gradients']:
        silence_lost_gradients(runner.optim_wrapper)
    runner.logger.info(f'resumed {filename} at epoch {runner.epoch}, iteration {runner.iter}')
