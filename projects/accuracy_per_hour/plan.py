"""What is compared: data, methods, the settings that each method tries, budgets and seeds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Setting = Mapping[str, Any]
Idea = tuple[str, Setting]  # a method and its setting

BATCH = 104
SEARCH_BUDGET = 30  # seconds of one core
BUDGETS = (60, 170, 480)
SEEDS = (0, 1, 2)
CONTENDER_SEEDS = (0, 1, 2, 3, 4)
SUPERVISED = 'supervised'
FAST, CODING = 'fast', 'coding'  # ours; the second with the coding rate
CONTENDERS = (CODING, 'simclr', 'decoupled', FAST)
OTHERS = ('paper', 'byol', 'mocov2', 'simsiam', 'swav', 'barlow', SUPERVISED)


class Stage(NamedTuple):
    """Runs that belong together: entries at every budget with every seed.

    An entry is a method and what it has of ours: ``'all'`` (its best setting, Muon where that won,
    and images in memory), ``'plain'`` (nothing but small views, where these won, as people run it)
    or ``'full'`` (full-size views).
    """

    entries: tuple[tuple[str, str], ...]
    budgets: tuple[int, ...]
    seeds: tuple[int, ...]


OURS_AND_NEAREST = ((FAST, 'all'), ('simclr', 'plain'))
DECOUPLED = (('decoupled', 'plain'),)
OTHERS_PLAIN = tuple((method, 'plain') for method in OTHERS)
#: in the order in which they are run
STAGES = (
    Stage(OURS_AND_NEAREST, (480, 60), (0,)),
    Stage((('simclr', 'full'),), (480,), (0,)),  # whose accuracy ours is to reach in half
    Stage(OURS_AND_NEAREST, BUDGETS, SEEDS),
    Stage(DECOUPLED, (480, 60), (0,)),
    Stage(OTHERS_PLAIN, (60,), (0,)),
    Stage((('simclr', 'full'),), (480, 170), SEEDS),
    Stage(OURS_AND_NEAREST, BUDGETS, CONTENDER_SEEDS),
    Stage(DECOUPLED, BUDGETS, SEEDS),
    Stage(OTHERS_PLAIN, (60, 480), (0,)),  # does one of them catch up?
    Stage(((CODING, 'all'), ('simclr', 'all'), ('decoupled', 'all')), (60, 480), SEEDS),
    Stage((*DECOUPLED, *OTHERS_PLAIN), BUDGETS, SEEDS),
)


@dataclass(frozen=True)
class Data:
    """A data set, the network for it, and the two sizes of views that every method tries.

    Args:
        train, test: folders of classes, below the data folder.
        size: pixels of an image when it is judged, and of a full-size view.
        small: pixels of a small view.
        pixels: name of the normalization in ``configs/_base_/pixels``.
        stages: stages of the network.
        held_out: share of every class of ``train`` that the search judges on and does not see.
        edge: pixels of an image that is kept in memory.
    """

    name: str
    train: str
    test: str
    size: int
    small: int
    pixels: str
    stages: int
    held_out: float
    edge: int

    @property
    def channels(self) -> int:
        """Channels of the last stage."""
        return 16 * 2 ** (self.stages - 1)


DATA = {
    data.name: data
    for data in (
        Data('cifar10_mini', 'train', 'test', 32, 24, 'cifar10', 3, 0.2, 32),
        Data('imagenette_mini', 'train', 'val', 64, 48, 'imagenet', 4, 1 / 3, 72),
    )
}


@dataclass(frozen=True)
class Job:
    """One run: what it trains, for how long, and on which images it is judged."""

    data: str
    method: str
    setting: Setting
    budget: int
    seed: int = 0
    held_out: bool = False

    @property
    def name(self) -> str:
        """Where the result lies, below ``results``."""
        phase = 'search' if self.held_out else 'final'
        label = label_of(self.setting)
        return f'{self.data}/{phase}/{self.method}/{label}-{self.budget}s-seed{self.seed}.json'


def label_of(setting: Setting) -> str:
    """A setting as a part of a file name, the same for equal settings.

    >>> label_of({'lr': 0.3, 'size': [[0, 16], [0.5, 24]], 'head.temperature': 0.1})
    'lr0.3_size0-16-0.5-24_temperature0.1'
    """
    return '_'.join(f'{key.rpartition(".")[2]}{_flat(value)}' for key, value in setting.items())


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return ''
    return '-'.join(map(_flat, value)) if isinstance(value, (list, tuple)) else str(value)


RATES = dict.fromkeys(CONTENDERS, (0.1, 0.3))
WIDE = {'neck.hid_channels': 1024, 'view.area': [0.3, 1.0]}
MUON = {'optim.type': 'ttl_mm.Muon', 'optim.matrix_rate': 0.3}
#: images are kept in memory, views of a whole batch are made at once
MEMORY = {'memory': True}


def trials(data: Data, method: str) -> list[Setting]:
    """The settings that a method tries, the same number for every method."""
    low, middle = RATES.get(method, (0.03, 0.1))
    own = {'simclr': {'head.temperature': 0.1}}.get(method, {})
    small = {'size': data.small}
    wide = {} if method == SUPERVISED else WIDE
    return [
        {'lr': middle, **own},
        {'lr': low, **small, **own},
        {'lr': middle, **small, **own},
        {'lr': low, **small, **own, **wide},
        {'lr': middle, **small, **own, **MUON},
    ]


def is_full(setting: Setting) -> bool:
    """Whether views have the size at which images are judged."""
    return 'size' not in setting


def is_plain(setting: Setting) -> bool:
    """Whether nothing of ours is in it: SGD, and every view made by itself."""
    return not {'optim.type', 'memory', 'amp'} & set(setting)


PREDICTOR = {
    '_delete_': True, 'type': 'NonLinearNeck', 'in_channels': 128, 'hid_channels': 256,
    'out_channels': 128, 'with_avg_pool': False, 'with_last_bn': False,
}  # fmt: skip
BASE: Setting = {'lr': 0.3, 'size': 24}
TRIAL = {**BASE, 'type': 'ttl_mm.TrialAlgorithm'}  # see trial.py
HALF = {'lr': 0.6, 'size': 24, 'batch': 52}
#: what else was tried on cifar10_mini, for ours or for its nearest rival: methods with settings
IDEAS: dict[str, list[Idea]] = {
    'parts of the feature map': [(FAST, {**TRIAL, 'cells': 0.5})],
    'all negatives instead of ranks 1 to 20': [(FAST, {**BASE, 'head.deputy': 'all'})],
    'no BatchNorm at the end of the projector': [(FAST, {**BASE, 'neck.with_last_bn': False})],
    'views of 28 and 20 px': [(FAST, {'lr': 0.3, 'pair': [28, 20]})],
    'temperature 0.05': [(FAST, {**BASE, 'head.deputy_temperature': 0.05})],
    'statistics of BatchNorm over both views': [(FAST, {**TRIAL, 'joint': True})],
    'two steps per batch, on new crops of it': [
        (FAST, {'lr': 0.3, 'size': 28, 'type': TRIAL['type'], 'echo': 2, 'target_size': 24})
    ],
    'a coding-rate term': [(FAST, {**TRIAL, 'coding': 1.0})],
    'a coding-rate term, and triplets of the features': [
        (FAST, {**TRIAL, 'coding': 1.0, 'direct': 0.5})
    ],
    'a coding-rate term of weight 4 and alignment, no negatives': [
        (FAST, {**TRIAL, 'contrast': 0.0, 'align': 1.0, 'coding': 4.0})
    ],
    'a coding-rate term, and a view in four pieces (Fast-MoCo)': [
        (FAST, {**TRIAL, 'coding': 1.0, 'patches': 2})
    ],
    'a coding-rate term, a quarter of the images turned, turns predicted': [
        (FAST, {**TRIAL, 'coding': 1.0, 'turned': 0.25})
    ],
    'a coding-rate term, half of the images turned, turns predicted': [
        (FAST, {**TRIAL, 'coding': 1.0, 'turned': 0.5})
    ],
    "a coding-rate term, and a view's own edges predicted": [
        (FAST, {**TRIAL, 'coding': 1.0, 'edges': 1.0, 'edges_own': True})
    ],
    "a coding-rate term, and a view's own edges predicted, weight 4": [
        (FAST, {**TRIAL, 'coding': 1.0, 'edges': 4.0, 'edges_own': True})
    ],
    "a coding-rate term, and the other view's edges predicted": [
        (FAST, {**TRIAL, 'coding': 1.0, 'edges': 1.0, 'edges_own': False, 'edges_other': True})
    ],
    'a coding-rate term, and edges as keys': [
        (FAST, {**TRIAL, 'coding': 1.0, 'edges_contrast': 0.5})
    ],
    'Muon': [
        (FAST, {**BASE, **MUON}),
        ('simclr', {'lr': 0.3, 'size': 24, 'head.temperature': 0.1, **MUON}),
    ],
    'Muon and a coding-rate term': [(CODING, {**BASE, **MUON})],
    'a coding-rate term of weight 4': [(CODING, {**BASE, 'head.coding_rate': 4.0})],
    'a coding-rate term, rate 0.6': [(CODING, {'lr': 0.6, 'size': 24})],
    'a predictor': [(FAST, {**BASE, 'head.predictor': PREDICTOR})],
    'rate 0.1': [(FAST, {'lr': 0.1, 'size': 24})],
    'rate 0.6, projector of 1024, crops from 0.3': [(FAST, {'lr': 0.6, 'size': 24, **WIDE})],
    'half the batch, twice the steps': [(FAST, HALF), ('decoupled', HALF)],
    'rate 0.6': [(FAST, {'lr': 0.6, 'size': 24})],
    'three layers in the projector': [(FAST, {**BASE, 'neck.num_layers': 3})],
    'neighbors as positives in the second half': [(FAST, {**TRIAL, 'queue': 20, 'start': 150})],
    'ranks 1 to 5': [(FAST, {**BASE, 'head.deputy': [1, 5]})],
    'temperature 0.2': [(FAST, {**BASE, 'head.deputy_temperature': 0.2})],
    'views of 20 px': [(FAST, {**BASE, 'size': 20})],
    'views of 28 px': [(FAST, {**BASE, 'size': 28})],
    'rising sizes 16, 24, 28 px': [(FAST, {**BASE, 'size': [[0, 16], [0.4, 24], [0.8, 28]]})],
    'crops from 0.4 of the area': [(FAST, {**BASE, 'view.area': [0.4, 1.0]})],
    'weaker colors': [(FAST, {**BASE, 'view.jitter': 0.5})],
    'warm-up of 3 %': [(FAST, {**BASE, 'warmup': 0.03})],
}

#: our recipe with images in memory, on which the ideas below are tried
MEMORY_BASE: Setting = {**BASE, **MEMORY, **MUON}
MEMORY_IDEAS: dict[str, list[Idea]] = {
    'bfloat16': [(FAST, {**BASE, **MEMORY, 'amp': 'bfloat16', **MUON})],
    'statistics of BatchNorm taken anew in the end, at full size': [
        (FAST, {**MEMORY_BASE, 'fresh': 1000})
    ],
    'a first convolution of whitened patches': [(FAST, {**MEMORY_BASE, 'white': 'start'})],
    'a first convolution of whitened patches, not trained': [
        (FAST, {**MEMORY_BASE, 'white': 'fixed'})
    ],
    'rising sizes 16, 24, 28 px': [
        (FAST, {'lr': 0.3, 'size': [[0, 16], [0.4, 24], [0.8, 28]], **MEMORY, **MUON})
    ],
    'mean of the weights of the last third, rate level before': [
        (FAST, {**MEMORY_BASE, 'decay': 'late', 'average': 0.3, 'fresh': 1000})
    ],
    'half the rate of matrices': [(FAST, {**MEMORY_BASE, 'optim.matrix_rate': 0.15})],
    'twice the rate of matrices': [(FAST, {**MEMORY_BASE, 'optim.matrix_rate': 0.6})],
    'a coding-rate term': [(CODING, MEMORY_BASE)],
    'crops from 0.3 of the area': [(FAST, {**MEMORY_BASE, 'view.area': [0.3, 1.0]})],
    'temperature 0.2': [(FAST, {**MEMORY_BASE, 'head.deputy_temperature': 0.2})],
    'views of 20 px': [(FAST, {**MEMORY_BASE, 'size': 20})],
    'views of 16 px': [(FAST, {**MEMORY_BASE, 'size': 16})],
    'twice the batch': [(FAST, {**MEMORY_BASE, 'batch': 208})],
    'half the batch': [(FAST, {**MEMORY_BASE, 'batch': 52})],
    'linear decay': [(FAST, {**MEMORY_BASE, 'decay': 'linear'})],
}

#: what is tried at the largest budget: does the best setting of 30 s stay the best?
LONG_TRIALS: list[Idea] = [
    (FAST, {**BASE, **MEMORY}),
    (FAST, MEMORY_BASE),
    ('simclr', {'lr': 0.1, 'size': 24, 'head.temperature': 0.1}),
    ('simclr', {'lr': 0.3, 'size': 24, 'head.temperature': 0.1}),
    (FAST, {**MEMORY_BASE, 'optim.matrix_rate': 0.1}),
]
