"""What acts during training: hooks, optimizer, checkpoints, guards."""

# ruff: noqa: E402  (mmpretrain is imported quietly before our parts)
import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.compat.quiet_imports import import_quietly  # isort: skip

import_quietly('mmpretrain.models')

from ttl_mm.engine.guards.bad_images import BadImagesHook
from ttl_mm.engine.guards.collapse import CollapseHook
from ttl_mm.engine.guards.finite import FiniteHook
from ttl_mm.engine.guards.preemption import PreemptionHook
from ttl_mm.engine.guards.preflight import PreflightHook
from ttl_mm.engine.guards.stall import StallHook
from ttl_mm.engine.guards.symptoms import SymptomsHook
from ttl_mm.engine.hooks.checkpoint_hook import CheckpointHook
from ttl_mm.engine.hooks.console_hook import ConsoleHook
from ttl_mm.engine.hooks.early_stop_hook import EarlyStopHook
from ttl_mm.engine.hooks.frozen_hook import FrozenBackboneHook
from ttl_mm.engine.hooks.gauge_hook import GaugeHook
from ttl_mm.engine.hooks.judge_hook import JudgeHook
from ttl_mm.engine.hooks.probe_hook import ProbeHook
from ttl_mm.engine.hooks.progress_hook import ProgressHook
from ttl_mm.engine.hooks.result_hook import ResultHook
from ttl_mm.engine.hooks.target_update_hook import TargetUpdateHook
from ttl_mm.engine.hooks.time_limit_hook import TimeLimitHook
from ttl_mm.engine.hooks.trial_hook import TrialHook
from ttl_mm.engine.optim.amp import AmpOptimWrapper
from ttl_mm.engine.optim.lars import LARS
from ttl_mm.engine.optim.muon import Muon
from ttl_mm.engine.optim.optim_constructor import OptimWrapperConstructor
from ttl_mm.engine.runner.loop import EpochLoop, IterLoop
from ttl_mm.engine.runner.runner import Runner

__all__ = [
    'LARS',
    'AmpOptimWrapper',
    'BadImagesHook',
    'CheckpointHook',
    'CollapseHook',
    'ConsoleHook',
    'EarlyStopHook',
    'EpochLoop',
    'FiniteHook',
    'FrozenBackboneHook',
    'GaugeHook',
    'IterLoop',
    'JudgeHook',
    'Muon',
    'OptimWrapperConstructor',
    'PreemptionHook',
    'PreflightHook',
    'ProbeHook',
    'ProgressHook',
    'ResultHook',
    'Runner',
    'StallHook',
    'SymptomsHook',
    'TargetUpdateHook',
    'TimeLimitHook',
    'TrialHook',
]
