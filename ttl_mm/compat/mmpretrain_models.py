"""mmpretrain's models, imported without noise, and the classes of it that ours extend.

Modules of ours import it instead of ``mmpretrain.models``, which must come after the guard of
torchvision.
"""

# ruff: noqa: E402  (the imports of mmpretrain come last)
from ttl_mm.compat.quiet_imports import import_quietly
from ttl_mm.compat.torchvision_guard import guard_torchvision

guard_torchvision()
import_quietly('mmpretrain.models')

from mmpretrain.models import SelfSupDataPreprocessor
from mmpretrain.models.selfsup import BaseSelfSupervisor

__all__ = ['BaseSelfSupervisor', 'SelfSupDataPreprocessor']
