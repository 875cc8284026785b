"""The random parameters of a view: distribution (:class:`View`) and draw (:class:`ViewParams`)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from ttl_mm.errors import UserError


@dataclass(frozen=True)
class View:
    """The distribution of one kind of view; the defaults are the paper's first view.

    All follow mmpretrain's BYOL pipeline (and torchvision).

    Args:
        size: Height and width of the view, or one number for both.
        later_sizes: Pairs (epoch, size), such as ((60, 160), (80, 224)): from that epoch on views
            are made at that size instead, epochs counted from 0. Small views first make a run
            cheaper: decoding, augmentation and network all work on fewer pixels.
        num: How many views of this kind are made of an image.
        area: Range of the crop's share of the image area.
        ratio: Range of the crop's width / height, drawn uniformly in the logarithm.
        flip, jitter, grayscale, blur, solarize: Probabilities.
        brightness, contrast, saturation: Factors are uniform in 1 +- this, but not negative.
        hue: The turn is uniform in +- this, in full circles.
        sigma: Range of the blur, in pixels of the view at its largest size. A smaller view is
            blurred by fewer of its own pixels, so that it shows the same.
        threshold: Solarize inverts levels from this one on.
    """

    size: int | tuple[int, int] = 224
    num: int = 1
    later_sizes: Sequence[tuple[int, int | tuple[int, int]]] = ()
    area: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: float = 0.8
    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.2
    hue: float = 0.1
    grayscale: float = 0.2
    blur: float = 1.0
    sigma: tuple[float, float] = (0.1, 2.0)
    solarize: float = 0.0
    threshold: int = 128

    def __post_init__(self):
        size, later = _pair(self.size), tuple((e, _pair(size)) for e, size in self.later_sizes)
        object.__setattr__(self, 'size', size)
        object.__setattr__(self, 'later_sizes', later)
        self._check('size', len(size) == 2 and min(size) >= 1, 'one or two numbers >= 1')
        epochs = [0, *(epoch for epoch, _ in later)]
        rising = all(before < after for before, after in pairwise(epochs))
        valid = all(len(size) == 2 and min(size) >= 1 for _, size in later)
        self._check('later_sizes', rising and valid, 'pairs (epoch, size), epochs rising from 1')
        self._check('num', self.num >= 1, 'at least 1')
        self._check('area', 0 < self.area[0] <= self.area[1] <= 1, '0 < low <= high <= 1')
        self._check('ratio', 0 < self.ratio[0] <= self.ratio[1], '0 < low <= high')
        self._check('sigma', 0 < self.sigma[0] <= self.sigma[1], '0 < low <= high')
        self._check('hue', 0 <= self.hue <= 0.5, 'between 0 and 0.5')
        self._check('threshold', 0 <= self.threshold <= 256, 'between 0 and 256')
        for name in ('flip', 'jitter', 'grayscale', 'blur', 'solarize'):
            self._check(name, 0 <= getattr(self, name) <= 1, 'a probability')
        for name in ('brightness', 'contrast', 'saturation'):
            self._check(name, getattr(self, name) >= 0, 'at least 0')

    def at(self, epoch: int) -> 'View':
        """The view as it is made in this epoch, of a single size.

        >>> View(size=96, later_sizes=((60, 160),)).at(60).size
        (160, 160)
        """
        if not self.later_sizes:
            return self
        sizes = [(0, self.size), *self.later_sizes]
        *_, size = (size for start, size in sizes if start <= epoch)
        share = _pair(size)[0] / max(_pair(other)[0] for _, other in sizes)
        low, high = self.sigma
        return replace(self, size=size, later_sizes=(), sigma=(share * low, share * high))

    def _check(self, name: str, holds: bool, wanted: str) -> None:
        if not holds:
            raise UserError(f'{name}={getattr(self, name)} of a view must be {wanted}')


@dataclass(frozen=True)
class ViewParams:
    """One draw. ``box`` is (top, left, height, width) in pixels of the upright image."""

    size: tuple[int, int]
    box: tuple[int, int, int, int]
    flip: bool
    jitter: tuple[tuple[str, float], ...]  # in the order of application
    grayscale: bool
    sigma: float | None
    threshold: int | None


def draw_view(view: View, height: int, width: int, rng: np.random.Generator) -> ViewParams:
    """Draw the parameters of one view of a ``height`` x ``width`` image."""
    return ViewParams(
        size=view.size,  # type: ignore[arg-type]  # always a pair after __post_init__
        box=draw_box(view, height, width, rng),
        flip=rng.random() < view.flip,
        jitter=draw_jitter(view, rng) if rng.random() < view.jitter else (),
        grayscale=rng.random() < view.grayscale,
        sigma=_uniform(rng, *view.sigma) if rng.random() < view.blur else None,
        threshold=view.threshold if rng.random() < view.solarize else None,
    )


def draw_box(
    view: View, height: int, width: int, rng: np.random.Generator, attempts: int = 10
) -> tuple[int, int, int, int]:
    """Draw area and ratio; if no attempt fits into the image, take the largest central crop."""
    for _ in range(attempts):
        area = _uniform(rng, *view.area) * height * width
        ratio = math.exp(_uniform(rng, math.log(view.ratio[0]), math.log(view.ratio[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(height - h + 1)), int(rng.integers(width - w + 1)), h, w
    h = min(height, max(1, round(width / view.ratio[0])))
    w = min(width, max(1, round(height * view.ratio[1])))
    return (height - h) // 2, (width - w) // 2, h, w


def draw_jitter(view: View, rng: np.random.Generator) -> tuple[tuple[str, float], ...]:
    """Draw factors for the color operations that have a range, and their order."""
    operations = []
    for name in ('brightness', 'contrast', 'saturation', 'hue'):
        if reach := getattr(view, name):
            low, high = (-reach, reach) if name == 'hue' else (max(0.0, 1.0 - reach), 1.0 + reach)
            operations.append((name, _uniform(rng, low, high)))
    return tuple(operations[i] for i in rng.permutation(len(operations)))


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)


def _uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return low + (high - low) * rng.random()
