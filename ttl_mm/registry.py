"""The registry scope ``ttl_mm``.

``type='ttl_mm.TTLAlgorithm'`` resolves in any mmengine config with no ``custom_imports``: mmengine
imports ``ttl_mm.registry`` when it meets the scope, and the registry imports its location when
asked for a name. The parts of a task are registered by its ``parts`` module, which its configs name
in ``custom_imports``. Importing this module also makes mmengine read checkpoints, annotation files
and images of strangers as data, within bounds, and find our recipes as ``ttl_mm::NAME``.
"""

from mmengine.registry import DATA_SAMPLERS as MMENGINE_DATA_SAMPLERS
from mmengine.registry import DATASETS as MMENGINE_DATASETS
from mmengine.registry import HOOKS as MMENGINE_HOOKS
from mmengine.registry import LOOPS as MMENGINE_LOOPS
from mmengine.registry import METRICS as MMENGINE_METRICS
from mmengine.registry import MODELS as MMENGINE_MODELS
from mmengine.registry import OPTIM_WRAPPER_CONSTRUCTORS as MMENGINE_OPTIM_WRAPPER_CONSTRUCTORS
from mmengine.registry import OPTIM_WRAPPERS as MMENGINE_OPTIM_WRAPPERS
from mmengine.registry import OPTIMIZERS as MMENGINE_OPTIMIZERS
from mmengine.registry import RUNNERS as MMENGINE_RUNNERS
from mmengine.registry import TRANSFORMS as MMENGINE_TRANSFORMS
from mmengine.registry import WEIGHT_INITIALIZERS as MMENGINE_WEIGHT_INITIALIZERS
from mmengine.registry import Registry

from ttl_mm.checkpoint.mmengine_loader import use_safe_loading
from ttl_mm.compat.mmengine_files import use_safe_files
from ttl_mm.compat.recipe_names import use_recipe_names
from ttl_mm.compat.torchvision_guard import guard_torchvision

# Every module of ours that needs mmpretrain or mmdet comes after this one: the __init__ of each
# subpackage imports it first.
guard_torchvision()
use_safe_loading()
use_safe_files()
use_recipe_names()


def _child(parent: Registry, *locations: str) -> Registry:
    return Registry(parent.name, parent=parent, scope='ttl_mm', locations=list(locations))


MODELS = _child(MMENGINE_MODELS, 'ttl_mm.models.parts')
WEIGHT_INITIALIZERS = _child(MMENGINE_WEIGHT_INITIALIZERS, 'ttl_mm.models.parts')
OPTIMIZERS = _child(MMENGINE_OPTIMIZERS, 'ttl_mm.engine')
OPTIM_WRAPPERS = _child(MMENGINE_OPTIM_WRAPPERS, 'ttl_mm.engine')
OPTIM_WRAPPER_CONSTRUCTORS = _child(MMENGINE_OPTIM_WRAPPER_CONSTRUCTORS, 'ttl_mm.engine')
HOOKS = _child(MMENGINE_HOOKS, 'ttl_mm.engine')
LOOPS = _child(MMENGINE_LOOPS, 'ttl_mm.engine')
RUNNERS = _child(MMENGINE_RUNNERS, 'ttl_mm.engine')
DATASETS = _child(MMENGINE_DATASETS, 'ttl_mm.datasets')
TRANSFORMS = _child(MMENGINE_TRANSFORMS, 'ttl_mm.datasets')
DATA_SAMPLERS = _child(MMENGINE_DATA_SAMPLERS, 'ttl_mm.datasets')
# all metrics belong to a task; a registry without a location makes mmengine warn that ttl_mm is not
# installed
METRICS = _child(MMENGINE_METRICS, 'ttl_mm.registry')
