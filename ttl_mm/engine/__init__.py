"""What acts during training: hooks, optimizer, checkpoints, guards."""

import ttl_mm.registry  # noqa: F401  isort: skip
from ttl_mm.engine.checkpoint_hook import CheckpointHook
from ttl_mm.engine.frozen_hook import FrozenBackboneHook
from ttl_mm.engine.gauge_hook import GaugeHook
from ttl_mm.engine.guards import (
    BadImagesHook,
    CollapseHook,
    FiniteHook,
    PreemptionHook,
    PreflightHook,
    StallHook,
)
from ttl_mm.engine.lars import LARS
from ttl_mm.engine.loop import EpochLoop, IterLoop
from ttl_mm.engine.optim_constructor import OptimWrapperConstructor
from ttl_mm.engine.precise_bn_hook import PreciseBNHook
from ttl_mm.engine.probe_hook import ProbeHook
from ttl_mm.engine.progress_hook import ProgressHook
from ttl_mm.engine.render_hook import RenderPredictionsHook
from ttl_mm.engine.result_hook import ResultHook
from ttl_mm.engine.runner import Runner
from ttl_mm.engine.target_update_hook import TargetUpdateHook

__all__ = [
    'LARS',
    'BadImagesHook',
    'CheckpointHook',
    'CollapseHook',
    'EpochLoop',
    'FiniteHook',
    'FrozenBackboneHook',
    'GaugeHook',
    'IterLoop',
    'OptimWrapperConstructor',
    'PreciseBNHook',
    'PreemptionHook',
    'PreflightHook',
    'ProbeHook',
    'ProgressHook',
    'RenderPredictionsHook',
    'ResultHook',
    'Runner',
    'StallHook',
    'TargetUpdateHook',
]
