"""How far each operation of RandomViews is from Pillow's for the same parameters.

    python tools/benchmarks/views_against_pillow.py DIR [DIR ...] [--images 100] [--size 224]

Parameters are drawn as in training. Prints the mean absolute difference and the 99th percentile in
gray levels over all pixels of all images, and exits with 1 above 1.5 or 6.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.datasets import color
from ttl_mm.datasets.decode import open_image
from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.datasets.view_params import View, ViewParams, draw_view
from ttl_mm.datasets.views import REDUCING_GAP, render, resized_crop, snap

MEAN, PERCENTILE_99 = 1.5, 6
ENHANCERS = {
    'brightness': ImageEnhance.Brightness,
    'contrast': ImageEnhance.Contrast,
    'saturation': ImageEnhance.Color,
}


def pillow(bgr: np.ndarray) -> Image.Image:
    return Image.fromarray(np.ascontiguousarray(bgr[..., ::-1]))


def pillow_crop(image: np.ndarray, box: tuple, size: tuple[int, int]) -> Image.Image:
    top, left, h, w = box
    crop = pillow(image[top : top + h, left : left + w])
    return crop.resize(size[::-1], Image.Resampling.BICUBIC)


def pillow_jitter(image: Image.Image, name: str, factor: float) -> Image.Image:
    if name != 'hue':
        return ENHANCERS[name](image).enhance(factor)
    hue, saturation, value = image.convert('HSV').split()
    turned = np.asarray(hue) + np.uint8(int(factor * 255) % 256)
    return Image.merge('HSV', (Image.fromarray(turned), saturation, value)).convert('RGB')


def pillow_view(image: np.ndarray, params: ViewParams) -> Image.Image:
    """The whole view by Pillow, operation by operation."""
    view = pillow_crop(image, params.box, params.size)
    if params.flip:
        view = ImageOps.mirror(view)
    for name, factor in params.jitter:
        view = pillow_jitter(view, name, factor)
    if params.grayscale:
        view = view.convert('L').convert('RGB')
    if params.sigma is not None:
        view = view.filter(ImageFilter.GaussianBlur(params.sigma))
    if params.threshold is not None:
        view = ImageOps.solarize(view, params.threshold)
    return view


def difference(ours: np.ndarray, theirs: Image.Image) -> np.ndarray:
    """Absolute differences, (H, W, 3)."""
    if ours.ndim == 2:
        ours = np.repeat(ours[..., None], 3, axis=2)
    return np.abs(ours.astype(np.int16) - np.asarray(theirs.convert('RGB'))[..., ::-1])


def differences(path: str, view: View, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The differences of each operation on one image."""
    file = open_image(path)
    image = file.decode(1)
    params = draw_view(view, file.height, file.width, rng)
    crop = resized_crop(image, params.box, params.size)
    base = pillow(crop)
    found = {'crop + resize': difference(crop, pillow_crop(image, params.box, params.size))}
    for name, factor in params.jitter:
        ours = color.JITTER[name](crop, factor)
        found[name] = difference(ours, pillow_jitter(base, name, factor))
    found['grayscale'] = difference(color.to_gray(crop), base.convert('L'))
    found['solarize'] = difference(
        color.solarize(crop, params.threshold), ImageOps.solarize(base, params.threshold)
    )
    blurred = base.filter(ImageFilter.GaussianBlur(params.sigma))
    found['blur'] = difference(color.gaussian_blur(crop, params.sigma), blurred)
    found['whole view'] = difference(render(image, params), pillow_view(image, params))
    for divisor in file.divisors[1:]:
        # the largest view that this crop may be reduced for
        side = min(params.box[2:]) // (REDUCING_GAP * divisor)
        if side >= 16:
            small = snap(params.box, divisor)
            ours = resized_crop(file.decode(divisor), small, (side, side))
            same = [divisor * edge for edge in small]
            theirs = pillow_crop(image, same, (side, side))
            found[f'decoded at 1/{divisor}, crop + resize'] = difference(ours, theirs)
    return found


def of_folder(folder: Path, view: View, images: int) -> dict[str, tuple[float, float]]:
    """Mean and 99th percentile of each operation over some images of a folder."""
    names = scan_folder(str(folder))
    rng = np.random.default_rng(0)
    found = defaultdict(list)
    for index in range(0, len(names), max(1, len(names) // images)):
        for name, values in differences(str(folder / names[index]), view, rng).items():
            found[name].append(values.ravel())
    joined = {name: np.concatenate(values) for name, values in found.items()}
    return {name: (v.mean(), np.percentile(v, 99)) for name, v in joined.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('dir', type=Path, nargs='+')
    parser.add_argument('--images', type=int, default=100)
    parser.add_argument('--size', type=int, default=224)
    args = parser.parse_args()
    view = View(size=args.size, jitter=1, blur=1, solarize=1, grayscale=0.2)
    found = [of_folder(folder, view, args.images) for folder in args.dir]
    header, rows = ['operation'], []
    for folder in args.dir:
        header += [f'{folder.parent.name}: mean', '99th percentile']
    for name in max(found, key=len):
        pairs = [folder.get(name) for folder in found]
        cells = [(f'{p[0]:.2f}', f'{p[1]:.0f}') if p else ('', '') for p in pairs]
        rows.append([name, *(cell for pair in cells for cell in pair)])
    print(markdown(header, rows))
    worst = [max(values) for values in zip(*(p for f in found for p in f.values()))]
    return int(worst[0] > MEAN or worst[1] > PERCENTILE_99)


if __name__ == '__main__':
    sys.exit(main())
