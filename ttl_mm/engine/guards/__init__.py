"""What watches over a run, one concern a file.

Before the first step, by :class:`PreflightHook`: ``data_size``, ``accumulation``, ``negatives``,
``memory_bank``, ``pretrained``, ``target_update``.
While training: ``finite``, ``collapse``, ``bad_images``, ``preemption``, ``stall``.
"""

from ttl_mm.engine.guards.bad_images import BadImagesHook
from ttl_mm.engine.guards.collapse import CollapseHook
from ttl_mm.engine.guards.finite import FiniteHook
from ttl_mm.engine.guards.preemption import PreemptionHook
from ttl_mm.engine.guards.preflight import PreflightHook
from ttl_mm.engine.guards.stall import StallHook

__all__ = [
    'BadImagesHook',
    'CollapseHook',
    'FiniteHook',
    'PreemptionHook',
    'PreflightHook',
    'StallHook',
]
