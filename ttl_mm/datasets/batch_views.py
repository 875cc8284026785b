"""Random views of a whole batch at once, from images of one size in memory.

A view is three linear maps of an image X of one channel, (S, S), and of the colors of its pixels::

    V = R·X·Cᵀ,   pixel <- clip(M·pixel + m),   solarized in the end

R and C crop, resize, flip and blur rows and columns; M and m are brightness, contrast, saturation,
hue and gray, one after the other. So a batch takes a few products of small matrices, where
:class:`~ttl_mm.datasets.views.RandomViews` takes a dozen calls for every view. The distribution is
that of :class:`~ttl_mm.datasets.view_params.View`, with three differences: colors are clipped once
instead of after every operation, hue turns colors of equal luma (YIQ) instead of equal value (HSV),
and the blur is a Gaussian instead of three boxes.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ttl_mm.datasets.view_params import View

ATTEMPTS = 10  # to find a box inside the image
OPERATIONS = 4  # brightness, contrast, saturation, hue
#: uniform numbers that a view is drawn from
NUMBERS = 2 * ATTEMPTS + 2 + 6 + 2 * OPERATIONS
GRAY = (0.114, 0.587, 0.299)  # of BGR
#: BGR to YIQ: luma, and the plane of colors
YIQ = ((0.114, 0.587, 0.299), (-0.3213, -0.2744, 0.5957), (0.3111, -0.5226, 0.2115))


class Draws(NamedTuple):
    """The parameters of one view of N images."""

    boxes: np.ndarray  # (N, 4) top, left, height, width in shares of the image
    flip: np.ndarray  # (N,) bool
    factors: np.ndarray  # (N, 4) brightness, contrast, saturation, hue
    order: np.ndarray  # (N, 4) in which they are applied
    gray: np.ndarray  # (N,) bool
    sigma: np.ndarray  # (N,) of the blur in pixels of the view; 0 for none
    solarize: np.ndarray  # (N,) bool


def draw_batch(view: View, heights: np.ndarray, widths: np.ndarray, u: np.ndarray) -> Draws:
    """The parameters of images of these sizes, (N,), from numbers uniform in [0, 1), (N, NUMBERS).

    Row i depends on row i of the numbers alone, so a view does not depend on its batch.
    """
    parts = np.split(u, np.cumsum([ATTEMPTS, ATTEMPTS, 2, 6, OPERATIONS]), axis=1)
    areas, ratios, places, choices, sizes, keys = parts
    boxes = draw_boxes(view, heights, widths, areas, ratios, places)
    flip, jitter, gray, blur, sigma, solarize = choices.T
    reach = np.array([view.brightness, view.contrast, view.saturation])
    low = np.array([*np.maximum(0, 1 - reach), -view.hue])
    high = np.array([*(1 + reach), view.hue])
    none = np.array([1.0, 1.0, 1.0, 0.0])
    factors = np.where((jitter < view.jitter)[:, None], low + (high - low) * sizes, none)
    width = view.sigma[0] + (view.sigma[1] - view.sigma[0]) * sigma
    return Draws(
        boxes, flip < view.flip, factors, keys.argsort(axis=1), gray < view.grayscale,
        np.where(blur < view.blur, width, 0.0), solarize < view.solarize,
    )  # fmt: skip


def draw_boxes(
    view: View, heights: np.ndarray, widths: np.ndarray, areas: np.ndarray, ratios: np.ndarray,
    places: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Boxes (N, 4) in shares of the image: the first attempt that fits, else the central one."""
    area = (view.area[0] + (view.area[1] - view.area[0]) * areas) * (heights * widths)[:, None]
    low, high = map(math.log, view.ratio)
    ratio = np.exp(low + (high - low) * ratios)
    w, h = np.sqrt(area * ratio), np.sqrt(area / ratio)  # (N, ATTEMPTS)
    fits = (w <= widths[:, None]) & (h <= heights[:, None])
    first = (np.arange(len(u := fits)), fits.argmax(axis=1))
    found = u.any(axis=1)
    h = np.where(found, h[first], np.minimum(heights, widths / view.ratio[0])) / heights
    w = np.where(found, w[first], np.minimum(widths, heights * view.ratio[1])) / widths
    places = np.where(found[:, None], places, 0.5)
    return np.stack([places[:, 0] * (1 - h), places[:, 1] * (1 - w), h, w], axis=1)


def render_batch(images: Tensor, view: View, draws: Draws) -> Tensor:
    """Views (N, 3, H, W) in 0 to 255, float32, of BGR images (N, 3, S, S)."""
    height, width = view.size  # type: ignore[misc]  # always a pair
    edge = images.shape[-1]
    boxes = torch.from_numpy(draws.boxes).float() * edge
    sigma = torch.from_numpy(draws.sigma).float()
    rows = resize_matrices(boxes[:, 0], boxes[:, 2], height, edge)
    columns = resize_matrices(boxes[:, 1], boxes[:, 3], width, edge)
    flip = torch.from_numpy(draws.flip)
    columns = torch.where(flip[:, None, None], columns.flip(1), columns)
    if draws.sigma.any():
        rows = blur_matrices(sigma, height) @ rows
        columns = blur_matrices(sigma, width) @ columns
    n = len(images)
    found = images.float().view(n, 3 * edge, edge) @ columns.mT  # (N, 3·S, W)
    found = rows[:, None] @ found.view(n, 3, edge, width)  # (N, 3, H, W)
    flat = found.flatten(2)
    matrix, offset = color_maps(draws, flat.mean(dim=2))
    flat = torch.baddbmm(offset[:, :, None], matrix, flat).clamp_(0, 255)
    if draws.solarize.any():
        chosen = torch.from_numpy(draws.solarize)[:, None, None] & (flat >= view.threshold)
        flat = torch.where(chosen, 255 - flat, flat)
    return flat.view(n, 3, height, width)


def resize_matrices(start: Tensor, length: Tensor, size: int, edge: int) -> Tensor:
    """Matrices (N, size, edge) that cut [start, start + length) out of a row and resize it.

    Bicubic, anti-aliased when shrinking, as torch's ``interpolate(antialias=True)`` of the crop.
    """
    length = length.clamp(min=1.0)  # the center of one pixel at least lies inside
    scale = length / size
    center = start[:, None] + scale[:, None] * (torch.arange(size) + 0.5)  # (N, size)
    at = torch.arange(edge) + 0.5
    inside = (at >= start[:, None]) & (at <= (start + length)[:, None])  # (N, edge)
    x = (at - center[:, :, None]).abs_().div_(scale.clamp(min=1.0)[:, None, None])
    weights = cubic(x).mul_(inside[:, None])
    return weights.div_(weights.sum(dim=2, keepdim=True))


def cubic(x: Tensor) -> Tensor:
    """Keys' kernel with a = -1/2 at x >= 0: 1 - 2.5x² + 1.5x³, then 2 - 4x + 2.5x² - 0.5x³.

    >>> cubic(torch.tensor([0.0, 0.5, 1.0, 1.5, 3.0]))
    tensor([ 1.0000,  0.5625,  0.0000, -0.0625,  0.0000])
    """
    x = x.clamp(max=2.0)
    near = (1.5 * x - 2.5).mul_(x).mul_(x).add_(1)
    far = (2.5 - 0.5 * x).mul_(x).sub_(4).mul_(x).add_(2)
    return torch.where(x < 1, near, far)


def blur_matrices(sigma: Tensor, size: int) -> Tensor:
    """Matrices (N, size, size) that blur a row by a Gaussian; the identity where sigma is 0."""
    at = torch.arange(size, dtype=torch.float32)
    squares = (at - at[:, None]).square()
    weights = torch.exp(-squares / (2 * sigma.clamp(min=1e-3).square())[:, None, None])
    return weights.div_(weights.sum(dim=2, keepdim=True))


def color_maps(draws: Draws, mean: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices (N, 3, 3) and offsets (N, 3) of colors, for views of this mean color (N, 3)."""
    n, unit, gray = len(mean), torch.eye(3), torch.tensor(GRAY)
    factors = torch.from_numpy(draws.factors).float()
    brightness, contrast, saturation, hue = factors.T
    to_gray = torch.ones(3, 1) * gray  # every row gives the gray level
    turned = hue_matrices(hue)
    saturated = to_gray + saturation[:, None, None] * (unit - to_gray)
    steps = torch.stack([
        brightness[:, None, None] * unit, contrast[:, None, None] * unit, saturated, turned,
    ], dim=1)  # fmt: skip  # (N, 4, 3, 3)
    lift = torch.zeros(n, OPERATIONS)
    lift[:, 1] = 1 - contrast  # of the mean gray level
    matrix, offset = unit.expand(n, 3, 3), torch.zeros(n, 3)
    row = torch.arange(n)
    for place in torch.from_numpy(draws.order).T:
        level = ((matrix @ mean[:, :, None])[:, :, 0] + offset) @ gray  # (N,)
        step = steps[row, place]
        matrix = step @ matrix
        offset = (step @ offset[:, :, None])[:, :, 0] + (lift[row, place] * level)[:, None]
    is_gray = torch.from_numpy(draws.gray)
    matrix = torch.where(is_gray[:, None, None], to_gray @ matrix, matrix)
    offset = torch.where(is_gray[:, None], (offset @ gray)[:, None], offset)
    return matrix, offset


def hue_matrices(turns: Tensor) -> Tensor:
    """Matrices (N, 3, 3) that turn colors by parts of a circle, their luma kept.

    >>> gray = torch.full((3,), 7.0)
    >>> hue_matrices(torch.tensor([0.25])) @ gray  # has no hue
    tensor([[7.0000, 7.0000, 7.0000]])
    """
    to_yiq = torch.tensor(YIQ)
    sin, cos = torch.sin(2 * torch.pi * turns), torch.cos(2 * torch.pi * turns)
    turn = torch.zeros(len(turns), 3, 3)
    turn[:, 0, 0] = 1
    turn[:, 1, 1] = turn[:, 2, 2] = cos
    turn[:, 1, 2], turn[:, 2, 1] = -sin, sin
    return torch.linalg.inv(to_yiq) @ turn @ to_yiq
