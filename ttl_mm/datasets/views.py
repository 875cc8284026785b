"""Several random views of an image, from file to tensor."""

import math
from collections.abc import Mapping, Sequence

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from mmcv.transforms import BaseTransform
from mmengine.logging import print_log

from ttl_mm.datasets import color, float_color
from ttl_mm.datasets.bands import Bands
from ttl_mm.datasets.decode import ImageFile, open_image
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.view_params import View, ViewParams, draw_view
from ttl_mm.errors import UserError
from ttl_mm.files.image_header import MAX_PIXELS
from ttl_mm.registry import TRANSFORMS

# A reduced image must hold at least this many pixels per pixel of a view: at 2 the result is on
# average within a level of that from the whole image (docs/benchmarks.md), at 1 visibly softer.
REDUCING_GAP = 2

#: edge of an image that is kept in memory, in those of its largest view: nothing is lost in crops
#: from 0.44 of the area on, and little in smaller ones
MARGIN = 1.5

PAPER_VIEWS = ({'blur': 1.0, 'solarize': 0.0}, {'blur': 0.1, 'solarize': 0.2})


@TRANSFORMS.register_module()
class RandomViews(BaseTransform):
    """The views of one image: decode once, then crop, resize, flip, color, blur, solarize.

    All parameters are drawn from the generator of the sample before the image is decoded. So a
    JPEG is decoded at reduced size where all crops are large enough for that. A view with
    ``later_sizes`` has the size of the sample's epoch: the same in all processes and workers, and
    after a resume.

    Required keys: ``img`` (uint8, BGR or grayscale) or ``img_path``, and ``rng`` (which
    ``ttl_mm.Runner`` adds, with ``epoch``) or else a ``sample_idx`` that is a
    :class:`SampleIndex`.
    Sets ``img``, a list of uint8 (3, H, W) tensors, one per view: ready for ``PackInputs``,
    ``default_collate`` and ``SelfSupDataPreprocessor``.

    Args:
        views: Keyword arguments of :class:`View`, one dict per kind of view; by default the two
            views of the paper.
        max_pixels: Larger files are refused, see :func:`decode_image`.
        rgb: Whether an ``img`` is RGB, as that of mmpretrain's CIFAR10, and the views shall be
            too. Both are BGR by default.
        bands: For images beyond 8-bit RGB: ``low`` and ``high`` of every channel, see
            :class:`~ttl_mm.datasets.bands.Bands`. Views are float32 (C, H, W) tensors then, 0 to
            255 in that range. Only three channels have colors: others get no saturation, hue and
            gray.
        in_memory: Training decodes every image once, keeps it as a square of this many pixels, and
            makes the views of a whole batch at once (:mod:`ttl_mm.datasets.batch_views`), which
            is several times as fast for small views. For sets that fit into memory: 100,000 images
            at 144 pixels take 5.8 GB. True: 1.5 times the largest view.
    """

    def __init__(
        self,
        views: Sequence[dict] = PAPER_VIEWS,
        max_pixels: int = MAX_PIXELS,
        rgb: bool = False,
        bands: Bands | Mapping | None = None,
        in_memory: bool | int = False,
    ) -> None:
        if not views:
            raise UserError('RandomViews needs at least one view, found views=[]')
        kinds = [View(**view) for view in views]
        self.views = [view for view in kinds for _ in range(view.num)]
        self.max_pixels = max_pixels
        self.rgb = rgb
        self.bands = Bands.of(bands)
        #: pixels of an image that is kept in memory
        self.edge = default_edge(kinds) if in_memory is True else in_memory or None
        if self.edge is not None and self.bands is not None:
            raise UserError('in_memory takes 8-bit RGB images, and bands are set: leave one out.')
        if self.bands is not None and self.bands.channels != float_color.COLORS:
            names = ('saturation', 'hue', 'grayscale')
            left_out = [n for n in names if any(getattr(view, n) for view in self.views)]
            if left_out:
                print_log(
                    f'Images with {self.bands.channels} in place of 3 channels have no colors: '
                    f'{", ".join(left_out)} are left out of their views.',
                    'current',
                )

    def transform(self, results: dict) -> dict:
        if self.bands is not None:
            file = ImageFile.of(self._all_bands(results))
        elif 'img' in results:
            file = ImageFile.of(as_bgr(results['img'], self.rgb))
        else:
            file = open_image(results['img_path'], self.max_pixels)
        height, width, rng = file.height, file.width, generator_of(results)
        views = self.views
        if any(view.later_sizes for view in views):
            epoch = epoch_of(results)
            views = [view.at(epoch) for view in views]
        draws = [draw_view(view, height, width, rng) for view in views]
        divisor = common_divisor(draws, file.divisors)
        image = file.decode(divisor)
        if self.bands is None:
            tensors = [to_tensor(render(image, params, divisor)) for params in draws]
        else:
            tensors = [render_bands(image, params, self.bands) for params in draws]
        results['img'] = [tensor.flip(0) for tensor in tensors] if self.rgb else tensors
        results['ori_shape'] = (height, width)
        return results

    def _all_bands(self, results: dict) -> np.ndarray:
        assert self.bands is not None
        if 'img' not in results:
            return self.bands.read(results['img_path'], self.max_pixels)
        image = np.atleast_3d(results['img'])
        if image.shape[2:] != (self.bands.channels,):
            raise UserError(
                f'an image of shape {image.shape}, and bands of {self.bands.channels} channels: '
                'both must have as many.'
            )
        return image


def default_edge(views: Sequence[View]) -> int:
    """The edge at which images are kept in memory for these views.

    >>> default_edge([View(size=48, later_sizes=[(3, 64)])])
    96
    """
    sizes = [view.size for view in views] + [size for view in views for _, size in view.later_sizes]
    return math.ceil(MARGIN * max(max(size) for size in sizes))  # type: ignore[arg-type]


def generator_of(results: dict) -> np.random.Generator:
    """The generator of this sample in this epoch."""
    index = results.get('sample_idx')
    if 'rng' not in results and isinstance(index, SampleIndex):
        results['rng'] = index.rng()
    if 'rng' in results:
        return results['rng']
    raise UserError(_not_known('rng', index))


def epoch_of(results: dict) -> int:
    """The epoch in which this sample is taken, counted from 0."""
    index = results.get('sample_idx')
    if 'epoch' in results:
        return results['epoch']
    if isinstance(index, SampleIndex):
        return index.epoch
    raise UserError(_not_known('epoch', index))


def _not_known(key: str, index: object) -> str:
    return (
        f'RandomViews found no {key} in the sample, and sample_idx={index!r} knows neither seed '
        'nor epoch: train with runner_type="ttl_mm.Runner", or set '
        'sampler=dict(type="ttl_mm.EpochSampler"); see "Your own dataset" in docs/data.md'
    )


def as_bgr(image: np.ndarray, rgb: bool = False) -> np.ndarray:
    """A uint8 image, (H, W, 3) or grayscale (H, W), as a contiguous (H, W, 3) array in BGR."""
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or image.shape[2:] not in ((), (3,)):
        raise UserError(
            f'expected a uint8 image of shape (H, W, 3) or (H, W), found {image.dtype} '
            f'{image.shape}: read files with ttl_mm.datasets.decode_image'
        )
    if image.ndim == 2:
        return cv2.cvtColor(image, cv2.COLOR_GRAY2BGR)
    return cv2.cvtColor(image, cv2.COLOR_RGB2BGR) if rgb else np.ascontiguousarray(image)


def common_divisor(draws: Sequence[ViewParams], divisors: Sequence[int]) -> int:
    """The largest divisor that leaves every crop ``REDUCING_GAP`` times its view, or 1."""
    limit = min(
        crop / (REDUCING_GAP * target)
        for params in draws
        for crop, target in zip(params.box[2:], params.size)
    )
    return max((n for n in divisors if n <= limit), default=1)


def render(image: np.ndarray, params: ViewParams, divisor: int = 1) -> np.ndarray:
    """One view of an image decoded at 1 / ``divisor``: (H, W, 3), or (H, W) if it is grayscale."""
    view = resized_crop(image, snap(params.box, divisor), params.size)
    if params.flip:
        view = cv2.flip(view, 1)
    for name, factor in params.jitter:
        view = color.JITTER[name](view, factor)
    if params.grayscale:
        view = color.to_gray(view)
    if params.sigma is not None:
        view = color.gaussian_blur(view, params.sigma)
    if params.threshold is not None:
        view = color.solarize(view, params.threshold)
    return view


def render_bands(image: np.ndarray, params: ViewParams, bands: Bands) -> torch.Tensor:
    """One view of an image of any depth, as a float32 (C, H, W) tensor."""
    top, left, h, w = params.box
    crop = bands.scaled(image[top : top + h, left : left + w])
    view = resized(crop, params.size)
    if params.flip:
        view = np.ascontiguousarray(view[:, ::-1])
    colors = bands.channels == float_color.COLORS
    for name, factor in params.jitter:
        if colors or name not in float_color.NEED_COLORS:
            view = float_color.JITTER[name](view, factor)
    if params.grayscale and colors:
        view = float_color.to_gray(view)
    if params.sigma is not None:
        view = float_color.gaussian_blur(np.ascontiguousarray(view), params.sigma)
    if params.threshold is not None:
        view = float_color.solarize(view, params.threshold)
    return torch.from_numpy(np.ascontiguousarray(view.transpose(2, 0, 1)))


def snap(box: tuple[int, int, int, int], divisor: int) -> tuple[int, int, int, int]:
    """The box in whole pixels of the image that was decoded at 1 / ``divisor``.

    Its edges move by half such a pixel at most, which is a quarter of a pixel of the view. The
    reduced image has the rounded-up size, so the box stays inside.
    """
    top, left, h, w = box
    top, left, bottom, right = (round(x / divisor) for x in (top, left, top + h, left + w))
    return top, left, bottom - top, right - left


def resized_crop(
    image: np.ndarray, box: tuple[int, int, int, int], size: tuple[int, int]
) -> np.ndarray:
    """Crop and resize in one pass: bicubic, anti-aliased when shrinking, like Pillow."""
    top, left, h, w = box
    return resized(image[top : top + h, left : left + w], size)


def resized(image: np.ndarray, size: tuple[int, int], mode: str = 'bicubic') -> np.ndarray:
    """(H, W, C) of uint8 or float32 at another size, anti-aliased when shrinking."""
    batch = torch.from_numpy(image)[None].permute(0, 3, 1, 2)
    result = F.interpolate(batch, size=size, mode=mode, antialias=True)
    return result[0].permute(1, 2, 0).contiguous().numpy()


def to_tensor(view: np.ndarray) -> torch.Tensor:
    """(H, W, 3) or (H, W) to a (3, H, W) tensor."""
    if view.ndim == 2:
        return torch.from_numpy(view).expand(3, -1, -1)
    planes = np.empty((3, *view.shape[:2]), np.uint8)
    cv2.split(view, list(planes))
    return torch.from_numpy(planes)


@TRANSFORMS.register_module()
class LoadBands(BaseTransform):
    """Load ``img_path``, an image beyond 8-bit RGB, for an evaluation; an ``img`` is taken as is.

    Sets ``img``, float32 (H, W, C) in the scale of :class:`~ttl_mm.datasets.bands.Bands`, with a
    short side of ``scale`` pixels; bilinear, anti-aliased.

    Args:
        bands: As for :class:`RandomViews`.
        scale: Pixels of the short side.
        max_pixels: Larger files are refused.
    """

    def __init__(self, bands: Bands | Mapping, scale: int, max_pixels: int = MAX_PIXELS) -> None:
        self.bands = Bands.of(bands)
        self.scale = scale
        self.max_pixels = max_pixels

    def transform(self, results: dict) -> dict:
        """Add ``img``, ``img_shape`` and ``ori_shape``."""
        assert self.bands is not None
        if 'img' in results:
            image = results['img']
        else:
            image = self.bands.read(results['img_path'], self.max_pixels)
        height, width = results['ori_shape'] = image.shape[:2]
        share = self.scale / min(height, width)
        size = max(self.scale, round(share * height)), max(self.scale, round(share * width))
        results['img'] = resized(self.bands.scaled(image), size, 'bilinear')
        results['img_shape'] = size
        return results
