"""What ``ttl train`` will do: chosen from the request, the images, the machine and a trial.

:func:`draft` chooses what a trial of a few steps needs to know; :mod:`ttl_mm.planning.train_length`
then knows what a step costs, and chooses the length of the run.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttl_mm.datasets.bands import Measured
from ttl_mm.datasets.images_in_memory import memory_of
from ttl_mm.datasets.view_params import View
from ttl_mm.datasets.views import default_edge
from ttl_mm.errors import UserError, counted
from ttl_mm.models.backbones import find_backbone
from ttl_mm.models.view_sizes import ViewSizes
from ttl_mm.planning.image_sources import Sample
from ttl_mm.planning.machine import Machine
from ttl_mm.planning.request import Request, check_request
from ttl_mm.planning.trial import Trial

#: networks and sizes by default: a GPU makes about 50 times as many steps as a CPU
DEFAULTS = {'GPU': ('resnet50', 224), 'CPU': ('resnet18', 96)}
SMALLEST_BATCH = 16
SECONDS_BETWEEN_SAVES = 600.0
KEPT_CHECKPOINTS = 2
#: share of the free memory that the images may take
MEMORY_FOR_IMAGES = 0.2
#: of larger views a batch is not made faster than one by one (docs/benchmarks.md)
LARGEST_IN_MEMORY = 96
PROBES = 8
#: backbone, export and report at the end take as long as so many starts of a run: on a busy machine
#: both take longer
STARTS_TO_CLOSE = 1.0
#: what the report measures on labeled images, in first probes
PROBES_TO_CLOSE = 2
UNMEASURED = Trial(0.0, 0.0, 0.0, step=1.0, steps=0, cpu=0.0, save=0.0, checkpoint=0, memory=0)


@dataclass(frozen=True)
class TrainPlan:
    """A run: its numbers, and in ``why`` the reason for each of them."""

    images: int
    backbone: str
    size: int
    ranks: int
    batch: int  # of a rank
    workers: int  # of a rank
    steps: int = 0
    limit: float | None = None  # seconds from the start of training to its last step
    max_bad_share: float = 0.01
    pixel_share: float = 1.0  # of the pixels that a run at its largest size would pass
    growth: tuple[tuple[float, float], ...] | None = None  # of views; None as in the recipe
    trial: Trial = UNMEASURED
    why: Mapping[str, str] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()
    pixels: Measured | None = None  # of images beyond 8-bit RGB
    edge: int | None = None  # of images that are kept in memory

    @property
    def whole_epochs(self) -> bool:
        """As opposed to a number of steps that fits into a time."""
        return self.limit is None

    @property
    def steps_per_epoch(self) -> int:
        """Full batches of an epoch, of all processes together."""
        return self.images // (self.batch * self.ranks)

    @property
    def epochs(self) -> float:
        """The length of the run in epochs, with a fraction."""
        return self.steps / self.steps_per_epoch

    @property
    def mean_step(self) -> float:
        """Seconds of a step; the trial made its steps at the largest size."""
        return self.trial.step * self.pixel_share

    @property
    def save_every(self) -> int:
        """Steps between two checkpoints: about ten minutes, whole epochs in a run of epochs."""
        steps = max(1, round(SECONDS_BETWEEN_SAVES / self.mean_step))
        if self.whole_epochs:
            steps = max(1, steps // self.steps_per_epoch) * self.steps_per_epoch
        return min(steps, self.steps)

    @property
    def probe_every(self) -> int:
        """Epochs between two measurements of kNN, where there are labels."""
        return max(1, round(self.epochs / PROBES))

    def seconds(self, probed: bool = False) -> float:
        """Expected time from the start of training to the end of the command."""
        saves = math.ceil(self.steps / self.save_every) * self.trial.save
        probes = math.ceil(self.epochs / self.probe_every) * self.trial.preparation
        fixed = self.trial.start_up + self.trial.warm_up + self.closing(probed)
        return fixed + saves + (probes if probed else 0) + self.steps * self.mean_step

    def closing(self, probed: bool = False) -> float:
        """Seconds from the end of training to that of the command."""
        probes = PROBES_TO_CLOSE * self.trial.preparation if probed else 0
        return STARTS_TO_CLOSE * (self.trial.start_up - self.trial.preparation) + probes

    @property
    def disk(self) -> int:
        """Bytes of the checkpoints: those that are kept, and the next while it is written."""
        return (KEPT_CHECKPOINTS + 1) * self.trial.checkpoint


def draft(
    request: Request, images: int, sample: Sample, machine: Machine, batch: int, largest_batch: int
) -> TrainPlan:
    """Everything but the length of the run.

    Args:
        request: What was asked for.
        images: How many there are.
        sample: What some of them look like.
        machine: Where it will run.
        batch: Of the recipe, on one device.
        largest_batch: That fits into the memory of a device.
    """
    check_request(request, machine)
    ranks = request.gpus or max(1, machine.gpus)
    name, size = DEFAULTS[machine.device]
    why = {
        'network': f'the default on a {machine.device}' if not request.backbone else 'as asked for',
        'size': f'the default on a {machine.device}' if not request.size else 'as asked for',
    }
    name = request.backbone or name
    backbone = find_backbone(name)
    sizes = backbone.sizes
    if request.size is None and backbone.own_size is not None and machine.gpus:
        size, why['size'] = backbone.own_size, 'that of the network in its library'
    if request.size is None and sample.short_side < size:
        size = sample.short_side // 8 * 8
        why['size'] = f'the images have a median short side of {sample.short_side} px'
    if request.size is None and not sizes.allows(size):
        size = sizes.largest_within(size)
        why['size'] += f'; {name} takes {sizes}'
    size = request.size or size
    _check_size(name, sizes, size)
    chosen, why['batch'] = _batch(images, ranks, batch, largest_batch)
    workers = max(1, min(8, machine.cpus // ranks - (0 if machine.gpus else 1)))
    bad = _bad_images(sample)
    pixels = sample.measured
    cautions = bad.pop('cautions', ()) + sample.left_out + (pixels.cautions if pixels else ())
    if pixels is not None and pixels.bands.channels != 3 and '/' in name:
        raise UserError(
            f'{name} takes three channels, and the images have {pixels.bands.channels}: choose '
            'a --backbone of those without a library in their names, such as resnet18.'
        )
    free = machine.host_memory
    edge = None if pixels else edge_in_memory(images, size, sample.short_side, ranks, free)
    return TrainPlan(
        images, name, size, ranks, chosen, workers, why=why, cautions=cautions, pixels=pixels,
        edge=edge, **bad,
    )  # fmt: skip


def edge_in_memory(images: int, size: int, side: int, ranks: int, memory: int) -> int | None:
    """Pixels at which each process keeps all images in memory; None if they take too much of it.

    Views that are large are better made one by one, too.

    >>> edge_in_memory(10_000, 96, side=480, ranks=1, memory=8 << 30)
    144
    """
    edge = min(default_edge([View(size=size)]), max(side, size))  # small images are not enlarged
    fits = ranks * memory_of(images, edge) <= MEMORY_FOR_IMAGES * memory
    return edge if fits and size <= LARGEST_IN_MEMORY else None


def _check_size(name: str, sizes: ViewSizes, size: int) -> None:
    """Refuse views that the network cannot take."""
    if sizes.only is None and size < sizes.smallest:
        other = '' if '/' in name else ', or a network that ends in _cifar'
        raise UserError(
            f'--size {size} is too small for {name}, which needs {sizes.smallest} pixels: give a '
            f'larger size{other}.'
        )
    if not sizes.allows(size):
        raise UserError(
            f'--size {size} does not fit {name}, which takes {sizes}: give --size '
            f'{sizes.nearest(size)}.'
        )


def _batch(images: int, ranks: int, batch: int, largest: int) -> tuple[int, str]:
    """Images of a batch on one device, and why so many."""
    of_images = images // ranks
    if of_images < SMALLEST_BATCH:
        raise UserError(
            f'{counted(images, "image")} on {counted(ranks, "process", "processes")}: the smallest '
            f'batch of a process is {SMALLEST_BATCH}. Add images.'
        )
    if largest < SMALLEST_BATCH:
        raise UserError(
            f'the memory holds a batch of {counted(largest, "image")}, and {SMALLEST_BATCH} are '
            'needed: choose a smaller --size or a smaller --backbone.'
        )
    chosen = min(batch, of_images, largest)
    if chosen == batch:
        return chosen, 'that of the recipe'
    return chosen, 'all there are' if chosen == of_images else 'as many as fit into the memory'


def _bad_images(sample: Sample) -> dict[str, Any]:
    """How many unreadable images a run may meet: twice as many as were found, at least 1 %."""
    share = max(0.01, min(1.0, 2 * sample.bad_share))
    if not sample.bad:
        return {}
    caution = (
        f'{len(sample.bad)} of {sample.tried} images that were tried cannot be read, such as '
        f'{sample.bad[0]}. They are replaced by others; the log names each.'
    )
    return {'max_bad_share': share, 'cautions': (caution,)}
