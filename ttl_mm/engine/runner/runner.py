"""mmengine's Runner, with what a run of days needs."""

import datetime
import logging
import os
from pathlib import Path
from typing import Any

import mmengine
import torch
from mmengine.dist import get_dist_info, is_distributed, master_only
from mmengine.model import MMDistributedDataParallel, revert_sync_batchnorm
from mmengine.runner import CheckpointLoader
from torch import distributed as dist
from torch import nn

from ttl_mm.checkpoint.coverage import ENOUGH, load_state
from ttl_mm.checkpoint.load import tensors_of
from ttl_mm.checkpoint.sealed import newest_valid, read_sealed, sealed_files
from ttl_mm.engine.guards.data_size import check_iterations
from ttl_mm.engine.state.control_group import from_first, make_control_group
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.resume_check import differences, in_epochs_of_now
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.engine.state.train_state import restore
from ttl_mm.errors import UserError
from ttl_mm.registry import RUNNERS

# mmengine's parts and ours in their place; the settings carry over
REPLACED_LOOPS = {
    'EpochBasedTrainLoop': 'ttl_mm.EpochLoop',
    'IterBasedTrainLoop': 'ttl_mm.IterLoop',
}
DEFAULT_HOOKS: dict[str, dict[str, Any]] = {
    'runtime_info': {'type': 'RuntimeInfoHook'},
    'timer': {'type': 'IterTimerHook'},
    'sampler_seed': {'type': 'DistSamplerSeedHook'},
    'logger': {'type': 'LoggerHook', 'interval': 50},
    'param_scheduler': {'type': 'ParamSchedulerHook'},
    'preflight': {'type': 'ttl_mm.PreflightHook'},
    'progress': {'type': 'ttl_mm.ProgressHook'},
    'finite': {'type': 'ttl_mm.FiniteHook'},
    'collapse': {'type': 'ttl_mm.CollapseHook'},
    'bad_images': {'type': 'ttl_mm.BadImagesHook'},
    'stall': {'type': 'ttl_mm.StallHook'},
    'checkpoint': {'type': 'ttl_mm.CheckpointHook', 'interval': 1, 'max_keep_ckpts': 3},
    'preemption': {'type': 'ttl_mm.PreemptionHook'},  # after the checkpoint
}
GRACE = 60  # seconds that a collective waits longer than StallHook, which can name the silent rank


@RUNNERS.register_module()
class Runner(mmengine.runner.Runner):
    """Takes any config of mmengine's Runner.

    What differs: it runs on several processes without a GPU, its loops and checkpoints know their
    place exactly, its hooks include the guards of :mod:`ttl_mm.engine.guards`, and no
    checkpoint is ever executed.
    """

    def setup_env(self, env_cfg: dict) -> None:
        """Start the process group (gloo where there is no GPU), and choose what to resume."""
        dist_cfg = dict(env_cfg.get('dist_cfg', {}))
        if (timeout := dist_cfg.get('timeout')) is not None:
            timeout += GRACE
            env_cfg = {**env_cfg, 'dist_cfg': {**dist_cfg, 'timeout': timeout}}
        if self.distributed and not torch.cuda.is_available() and not is_distributed():
            _init_gloo(self.launcher, timeout)
        super().setup_env(env_cfg)
        make_control_group(timeout)
        self._resume_from, self._passed_over = self._choose_checkpoint()

    @master_only
    def dump_config(self) -> None:
        """Keep the config in the work dir, by which training can go on.

        A test must not replace it: its own config goes into its log folder.
        """
        if self.cfg.get('train_cfg'):
            super().dump_config()
        else:
            self.cfg.dump(Path(self.log_dir) / Path(self.cfg.filename or 'config.py').name)

    def _choose_checkpoint(self) -> tuple[Path | None, list[str]]:
        """The checkpoint to resume from; rank 0 looks and tells the others."""
        choice: Any = None
        if get_dist_info()[0] == 0:
            try:
                choice = self._look_for_checkpoint()
            except UserError as error:
                choice = error
        choice = from_first(choice)
        if isinstance(choice, UserError):
            raise choice
        return choice

    def _look_for_checkpoint(self) -> tuple[Path | None, list[str]]:
        resume = self.cfg.get('resume')
        if not resume:
            existing = sealed_files(Path(self.work_dir))
            if existing and self.cfg.get('train_cfg'):
                raise UserError(
                    f'{self.work_dir} has checkpoints of a run that reached iteration '
                    f'{existing[0][1].iteration}: add --resume to continue it, or choose another '
                    '--work-dir.'
                )
            return None, []
        # mmengine spells a path as resume=True with load_from; 'auto' leaves load_from to the
        # first start, when there is nothing to resume yet
        path = resume if isinstance(resume, str) else self.cfg.get('load_from')
        if path and path != 'auto':
            return Path(path), []
        return newest_valid(Path(self.work_dir))

    def set_randomness(self, seed, diff_rank_seed=False, deterministic=False) -> None:
        """A resumed run keeps its seed."""
        self._checkpoint = read_sealed(self._resume_from) if self._resume_from else None
        if seed is None and self._checkpoint is not None:
            seed = self._checkpoint['meta']['seed']
        super().set_randomness(seed, diff_rank_seed, deterministic)

    def wrap_model(self, model_wrapper_cfg: dict | None, model: nn.Module) -> nn.Module:
        """On CPUs there is no synchronised BatchNorm and no device to place a model on."""
        if not self.distributed or torch.cuda.is_available():
            return super().wrap_model(model_wrapper_cfg, model)
        plain = revert_sync_batchnorm(model)
        self.logger.warning('No GPU: SyncBN layers are BN layers in this run, statistics per rank.')
        options = dict(model_wrapper_cfg or {})
        options.pop('type', None)
        options.setdefault('broadcast_buffers', False)
        options.setdefault('find_unused_parameters', self.cfg.get('find_unused_parameters', False))
        return MMDistributedDataParallel(module=plain, **options)

    def build_train_loop(self, loop):
        """Our loops in the place of mmengine's."""
        if isinstance(loop, dict):
            loop = dict(loop)
            if 'by_epoch' in loop:
                by_epoch = loop.pop('by_epoch')
                loop['type'] = 'EpochBasedTrainLoop' if by_epoch else 'IterBasedTrainLoop'
            name = getattr(loop['type'], '__name__', loop['type']).rpartition('.')[2]
            loop['type'] = REPLACED_LOOPS.get(name, loop['type'])
        loop = super().build_train_loop(loop)
        if not hasattr(loop, 'resume_at'):
            raise UserError(
                f'the loop {type(loop).__name__} does not know its exact position: use '
                "train_cfg=dict(by_epoch=True, max_epochs=...) or run it with mmengine's Runner."
            )
        check_iterations(loop.dataloader, get_dist_info()[1])
        return loop

    def register_default_hooks(self, hooks: dict | None = None) -> None:
        """The hooks every run has. A config changes their settings, or removes one with None."""
        chosen = {name: dict(hook) for name, hook in DEFAULT_HOOKS.items()}
        for name, hook in (hooks or {}).items():
            if hook is None:
                chosen.pop(name, None)
            elif isinstance(hook, dict):
                chosen[name] = _merge_hook(chosen.get(name, {}), hook)
            else:
                chosen[name] = hook
        for hook in chosen.values():
            self.register_hook(hook)

    def load_or_resume(self) -> None:
        """Continue from the chosen checkpoint, or load weights, or start."""
        if self._has_loaded:
            return
        for problem in self._passed_over:
            self.logger.error(f'{problem}; passed over')
        if self._resume and self._checkpoint is None:
            self.logger.info(f'nothing to resume in {self.work_dir}: starting at iteration 0')
        if self._checkpoint is not None:
            self.resume(str(self._resume_from))
        elif self._load_from is not None:
            self.load_checkpoint(self._load_from)
        self._has_loaded = True

    def load_checkpoint(self, filename: str, *args, **kwargs) -> dict:
        """Start from the weights of another run; an error where too few of them fit."""
        checkpoint = CheckpointLoader.load_checkpoint(filename, 'cpu')
        self.call_hook('after_load_checkpoint', checkpoint=checkpoint)
        state, model = tensors_of(checkpoint), unwrap_model(self.model)
        self.logger.info(load_state(model, state, filename, min_coverage=ENOUGH))
        return checkpoint

    def resume(self, filename: str, *args, **kwargs) -> None:
        """Continue a run exactly where ``filename`` was saved."""
        checkpoint = self._checkpoint or read_sealed(Path(filename))
        self._checkpoint = None
        self.call_hook('after_load_checkpoint', checkpoint=checkpoint)
        load_state(
            unwrap_model(self.model),
            checkpoint['state_dict'],
            filename,
            remedy='The config describes another model than the checkpoint: choose another '
            '--work-dir, or start from its weights with load_from.',
        )
        restore(self, checkpoint)
        own, now = checkpoint['ttl_mm'], RunSettings.of(self)
        for difference in differences(own, now, self.cfg):
            self.logger.warning(difference)
        rank, world_size = get_dist_info()
        rng = own['ranks'][rank]['rng'] if world_size == len(own['ranks']) else None
        epoch, iteration = checkpoint['meta']['epoch'], checkpoint['meta']['iter']
        if self.train_loop.counts_epochs:
            before = RunSettings.from_saved(own['settings'])
            lengths = before.iterations_per_epoch, now.iterations_per_epoch
            iteration = in_epochs_of_now(epoch, iteration, *lengths)
        self.train_loop.resume_at(epoch, iteration, own['validated'], rng)
        if own['ranks'][0]['gradients']:
            self.logger.addFilter(_says_not_lost)
        self._has_loaded = True
        self.logger.info(f'resumed {filename} at epoch {self.epoch}, iteration {self.iter}')


def _says_not_lost(record: logging.LogRecord) -> bool:
    """Keep mmengine from warning of gradients that were restored."""
    return 'the gradient of some iterations is lost' not in record.getMessage()


def _merge_hook(default: dict, given: dict) -> dict:
    """Settings of the config over our defaults if it leaves the type open; our checkpoints."""
    name = getattr(given.get('type'), '__name__', given.get('type'))
    if name in ('CheckpointHook', 'mmengine.CheckpointHook'):
        return {**given, 'type': 'ttl_mm.CheckpointHook'}  # keeps all files unless told otherwise
    if 'type' not in given:
        return {**default, **given}
    return dict(given)


def _init_gloo(launcher: str, timeout: float | None) -> None:
    """Join the process group of a machine without GPUs."""
    if launcher == 'slurm':
        os.environ['RANK'] = os.environ['SLURM_PROCID']
        os.environ['WORLD_SIZE'] = os.environ['SLURM_NTASKS']
        os.environ['LOCAL_RANK'] = os.environ['SLURM_LOCALID']
    dist.init_process_group(
        'gloo', timeout=None if timeout is None else datetime.timedelta(seconds=timeout)
    )
