"""mmengine's Runner, with what a run of days needs."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import mmengine
import torch
from mmengine.dist import is_distributed, master_only
from mmengine.model import MMDistributedDataParallel, revert_sync_batchnorm
from mmengine.runner import CheckpointLoader
from torch import distributed as dist
from torch import nn

from ttl_mm.checkpoint.coverage import ENOUGH, load_state
from ttl_mm.checkpoint.load import tensors_of
from ttl_mm.checkpoint.sealed import read_sealed
from ttl_mm.compat.mmengine_private import built_train_loop
from ttl_mm.engine.guards.data_size import check_iterations
from ttl_mm.engine.runner.resume import choose_checkpoint, continue_run, load_resumed_weights
from ttl_mm.engine.runner.substitutes import Substitutes
from ttl_mm.engine.state.control_group import make_control_group
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.registry import RUNNERS

GRACE = 60  # seconds that a collective waits longer than StallHook, which can name the silent rank


@RUNNERS.register_module()
class Runner(mmengine.runner.Runner):
    """Takes any config of mmengine's Runner.

    What differs: it runs on several processes without a GPU, its loops and checkpoints know their
    place exactly (:mod:`ttl_mm.engine.runner.resume`), its hooks include the guards of
    :mod:`ttl_mm.engine.guards`, and nothing in a checkpoint is ever executed. Where a config names
    parts of mmengine, ours take their place, and the log says so
    (:mod:`ttl_mm.engine.runner.substitutes`).
    """

    _has_loaded: bool
    _train_dataloader: Any
    optim_wrapper: Any
    param_schedulers: Any

    @property
    def epoch(self) -> int:
        """Epochs done so far, 0 in a test; mmengine's would build the training loop to tell."""
        return getattr(built_train_loop(self), 'epoch', 0)

    @property
    def iter(self) -> int:
        """Iterations done so far, as ``epoch``."""
        return getattr(built_train_loop(self), 'iter', 0)

    def setup_env(self, env_cfg: dict) -> None:
        """Start the process group (gloo where there is no GPU) and choose what to resume."""
        dist_cfg, timeout = env_cfg.get('dist_cfg', {}), None
        if (seconds := dist_cfg.get('timeout')) is not None:
            env_cfg = {**env_cfg, 'dist_cfg': {**dist_cfg, 'timeout': seconds + GRACE}}
            timeout = timedelta(seconds=seconds + GRACE)
        if self.distributed and not torch.cuda.is_available() and not is_distributed():
            _init_gloo(self.launcher, timeout)
        super().setup_env(env_cfg)
        make_control_group(timeout)
        self._resume_point = choose_checkpoint(self.cfg, Path(self.work_dir))

    @master_only
    def dump_config(self) -> None:
        """Write the config into the work_dir; that of a test goes into its log folder instead."""
        if self.cfg.get('train_cfg'):
            super().dump_config()
        else:
            self.cfg.dump(Path(self.log_dir) / Path(self.cfg.filename or 'config.py').name)

    def set_randomness(self, seed, diff_rank_seed=False, deterministic=False) -> None:
        """A resumed run keeps its seed."""
        checkpoint = self._resume_point.checkpoint
        if seed is None and checkpoint is not None:
            seed = checkpoint['meta']['seed']
        super().set_randomness(seed, diff_rank_seed, deterministic)

    def wrap_model(self, model_wrapper_cfg: dict | None, model: nn.Module) -> nn.Module:
        """Without a GPU there is no synchronized BatchNorm and no device to place a model on."""
        if not self.distributed or torch.cuda.is_available():
            return super().wrap_model(model_wrapper_cfg, model)
        plain = revert_sync_batchnorm(model)
        self.logger.warning('No GPU: SyncBN layers are BN layers in this run, statistics per rank.')
        unused = self.cfg.get('find_unused_parameters', False)
        defaults = {'broadcast_buffers': False, 'find_unused_parameters': unused}
        given = {k: v for k, v in (model_wrapper_cfg or {}).items() if k != 'type'}
        return MMDistributedDataParallel(module=plain, **{**defaults, **given})

    def build_train_loop(self, loop):
        """Build the loop, with our parts in the place of mmengine's; log which."""
        if isinstance(loop, dict):
            if {'type', 'by_epoch'} <= loop.keys():
                raise UserError(
                    f'train_cfg has type={loop["type"]!r} and by_epoch={loop["by_epoch"]!r}, and '
                    'only one of them can count: delete by_epoch.'
                )
            loop = self._substitutes.loop(loop)
            self._train_dataloader = self._substitutes.dataloader(self._train_dataloader)
            if line := str(self._substitutes):
                self.logger.info(line)
        loop = super().build_train_loop(loop)
        if not hasattr(loop, 'resume_at'):
            raise UserError(
                f'the loop {type(loop).__name__} does not know its exact position: use '
                "train_cfg=dict(by_epoch=True, max_epochs=...) or run it with mmengine's Runner."
            )
        check_iterations(loop.dataloader)
        return loop

    def register_default_hooks(self, hooks: dict | None = None) -> None:
        """The hooks of the config, and the guards that it does not name."""
        self._substitutes = Substitutes()
        for hook in self._substitutes.hooks(hooks).values():
            self.register_hook(hook)

    def load_or_resume(self) -> None:
        """Continue from the chosen checkpoint, or load weights, or start.

        ``val`` and ``test`` take the weights alone and build no training loop.
        """
        if self._has_loaded:
            return
        point = self._resume_point
        for problem in point.passed_over:
            self.logger.error(f'{problem}; passed over')
        if self._resume and point.checkpoint is None:
            self.logger.info(f'nothing to resume in {self.work_dir}: starting at iteration 0')
        if point.checkpoint is not None and built_train_loop(self) is None:
            load_resumed_weights(self, point.checkpoint, str(point.path))
        elif point.checkpoint is not None:
            self.resume(str(point.path))
        elif self._load_from is not None:
            self.load_checkpoint(self._load_from)
        self._has_loaded = True

    def load_checkpoint(self, filename: str, *args, **kwargs) -> dict:
        """Start from the weights of another run; an error where too few of them fit."""
        checkpoint = CheckpointLoader.load_checkpoint(filename, 'cpu')
        self.call_hook('after_load_checkpoint', checkpoint=checkpoint)
        model = unwrap_model(self.model)
        self.logger.info(load_state(model, tensors_of(checkpoint), filename, min_coverage=ENOUGH))
        self._has_loaded = True
        return checkpoint

    def resume(self, filename: str, *args, **kwargs) -> None:
        """Continue a run exactly where ``filename`` was saved."""
        point = self._resume_point
        known = point.checkpoint if point.path == Path(filename) else None
        point.checkpoint = None  # not needed twice, and large
        # built already, unless somebody calls this method before train()
        self.optim_wrapper = self.build_optim_wrapper(self.optim_wrapper)
        if self.param_schedulers is not None:
            self.param_schedulers = self.build_param_scheduler(self.param_schedulers)
        continue_run(self, known or read_sealed(Path(filename)), filename)
        self._has_loaded = True


def _init_gloo(launcher: str, timeout: timedelta | None) -> None:
    """Join the process group of a machine without GPUs."""
    if launcher == 'slurm':
        names = {'RANK': 'PROCID', 'WORLD_SIZE': 'NTASKS', 'LOCAL_RANK': 'LOCALID'}
        os.environ.update({ours: os.environ[f'SLURM_{name}'] for ours, name in names.items()})
    dist.init_process_group('gloo', timeout=timeout)
