"""mmengine's Runner, with what a run of days needs."""

import os
import weakref
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import mmengine
import torch
from mmengine.dist import is_distributed, master_only
from mmengine.logging import MMLogger
from mmengine.model import MMDistributedDataParallel, revert_sync_batchnorm
from mmengine.runner import CheckpointLoader
from torch import nn

from ttl_mm.checkpoint.coverage import ENOUGH, load_state
from ttl_mm.checkpoint.load import tensors_of
from ttl_mm.checkpoint.sealed import read_sealed
from ttl_mm.compat.mmengine_private import built_train_loop, count_parts
from ttl_mm.datasets.build_dataset import failures_named, start_guarded
from ttl_mm.engine.guards.data_size import check_iterations
from ttl_mm.engine.guards.stall import TIMEOUT
from ttl_mm.engine.hooks.console_hook import ConsoleHook, quiet, unquiet
from ttl_mm.engine.runner.log_faults import tolerate_log_faults
from ttl_mm.engine.runner.networks import prepare_networks
from ttl_mm.engine.runner.resume import (
    choose_checkpoint,
    continue_run,
    keep_image_list,
    load_resumed_weights,
)
from ttl_mm.engine.runner.schedule import stretched
from ttl_mm.engine.runner.step_size import StepSize
from ttl_mm.engine.runner.substitutes import Substitutes
from ttl_mm.engine.state.control_group import init_gloo, make_control_group
from ttl_mm.engine.state.exit_codes import follow_first
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.run_ranks import RunRanks
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.engine.state.work_dir_lock import WorkDirLock
from ttl_mm.errors import UserError, counted
from ttl_mm.registry import RUNNERS

# A collective waits longer than StallHook, which can name the rank that it waits for; much longer,
# since one rank may work for longer than the time-out, as long as it gives signs of life. Configs
# without dist_cfg.timeout would get NCCL's ten minutes, and its abort names nobody.
LONGER, GRACE = 4, 60  # times the time-out, plus seconds

START_REMEDY = (
    'load_from takes a checkpoint of this very model. To start from the backbone of another tool, '
    "set model.backbone.init_cfg=dict(type='ttl_mm.PretrainedBackbone', checkpoint=FILE)."
)


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
        if self.distributed:
            follow_first()
        dist_cfg = env_cfg.get('dist_cfg') or {}
        seconds = LONGER * (dist_cfg.get('timeout') or TIMEOUT) + GRACE
        env_cfg = {**env_cfg, 'dist_cfg': {**dist_cfg, 'timeout': seconds}}
        timeout = timedelta(seconds=seconds)
        if self.distributed and not torch.cuda.is_available() and not is_distributed():
            _set_ranks(self.launcher)
            init_gloo(timeout)
        super().setup_env(env_cfg)
        make_control_group(timeout)
        self._lock = WorkDirLock(Path(self.work_dir)) if self._train_loop is not None else None
        self._resume_point = choose_checkpoint(self.cfg, Path(self.work_dir), self._lock)
        own = (self._resume_point.checkpoint or {}).get('ttl_mm')  # not in the file of another tool
        self.ranks = RunRanks.of(own and RunSettings.saved_ranks(own['settings']))
        if self._lock is not None:
            weakref.finalize(self, self._lock.release)

    def build_logger(self, *args, **kwargs) -> MMLogger:
        """Log to a file and, unless ConsoleHook takes the console, there too."""
        logger = super().build_logger(*args, **kwargs)
        if (self.cfg.get('default_hooks') or {}).get('console'):
            quiet(logger)
        return logger

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

    def train(self) -> nn.Module:
        """Train, and give the terminal and the work dir back at the end, whatever it is."""
        try:
            return super().train()
        finally:
            for hook in self.hooks:
                if isinstance(hook, ConsoleHook):
                    hook.close()
            unquiet()
            if self._lock is not None:
                self._lock.release()

    def call_hook(self, fn_name: str, **kwargs) -> None:
        """As mmengine's; nothing is saved into a work dir that another run has taken over."""
        if fn_name == 'before_save_checkpoint' and self._lock is not None:
            self._lock.check()
        super().call_hook(fn_name, **kwargs)

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

    @staticmethod
    def build_dataloader(dataloader, *args, **kwargs):
        """As mmengine's, but damaged files end the run with a sentence, and workers are guarded."""
        dataset = dataloader.get('dataset') if isinstance(dataloader, dict) else None
        kind = dataset.get('type') if isinstance(dataset, dict) else dataset
        with failures_named(f'the data loader of {kind}'):
            loader = super(Runner, Runner).build_dataloader(dataloader, *args, **kwargs)
        loader.worker_init_fn = partial(start_guarded, loader.worker_init_fn)
        return loader

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

    def build_param_scheduler(self, scheduler):
        """As mmengine's; where an iteration of the resumed run had other images, by images."""
        own = (self._resume_point.checkpoint or {}).get('ttl_mm')
        if own and built_train_loop(self) is not None:
            scheduler = stretched(scheduler, StepSize(self, own).stretch)
        return super().build_param_scheduler(scheduler)

    def build_visualizer(self, visualizer=None):
        """As mmengine's, but a file that cannot be written does not end the run."""
        built = super().build_visualizer(visualizer)
        tolerate_log_faults(self.logger, built)
        return built

    def register_default_hooks(self, hooks: dict | None = None) -> None:
        """The hooks of the config, and the guards that it does not name."""
        self._substitutes = Substitutes()
        for hook in self._substitutes.hooks(hooks).values():
            self.register_hook(hook)

    def _maybe_compile(self, target: str) -> None:
        """Prepare the networks; mmengine calls it last before the loop, and would compile a step.

        A step that is compiled as a whole falls to pieces at every hook and every other size.
        """
        for sentence in prepare_networks(unwrap_model(self.model), self.cfg):
            self.logger.info(sentence)
        ranks = self.train_loop.ranks
        if ranks.parts > 1:
            count_parts(self.optim_wrapper, ranks.parts)
            self.logger.warning(several_ranks_each(ranks, RunSettings.of(self)))

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
        if built_train_loop(self) is not None:
            keep_image_list(self)
        self._has_loaded = True

    def load_checkpoint(self, filename: str, *args, **kwargs) -> dict:
        """Start from the weights of another run; an error where too few of them fit."""
        checkpoint = CheckpointLoader.load_checkpoint(filename, 'cpu')
        self.call_hook('after_load_checkpoint', checkpoint=checkpoint)
        model = unwrap_model(self.model)
        state = tensors_of(checkpoint)
        self.logger.info(load_state(model, state, filename, ENOUGH, START_REMEDY))
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


def several_ranks_each(ranks: RunRanks, run: RunSettings) -> str:
    """What is the same and what is not where a process does the work of several ranks."""
    return (
        f'{counted(ranks.processes, "process", "processes")} for the work of {ranks.ranks} ranks, '
        f'{ranks.parts} each, one after another: an iteration still has {run.batch_size} images, '
        f'an optimizer step {run.batch_size * run.accumulative_counts}. What changes is the group '
        f'of images that SyncBN normalizes together, {ranks.processes} x {run.batch_size_per_rank} '
        f'in place of {ranks.ranks} x {run.batch_size_per_rank}, and that of gather_negatives.'
    )


def _set_ranks(launcher: str) -> None:
    """Give torch the ranks of a Slurm job under the names that it knows."""
    if launcher == 'slurm':
        names = {'RANK': 'PROCID', 'WORLD_SIZE': 'NTASKS', 'LOCAL_RANK': 'LOCALID'}
        os.environ.update({ours: os.environ[f'SLURM_{name}'] for ours, name in names.items()})
