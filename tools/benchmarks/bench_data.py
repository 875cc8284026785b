"""Images per second per core: stock mmpretrain, torchvision v2 on PIL, and RandomViews.

    python tools/benchmarks/bench_data.py                    # generated 500 x 375 JPEGs
    python tools/benchmarks/bench_data.py --data data/imagenette_mini/train    # and a folder's
    python tools/benchmarks/bench_data.py --memory --data data/imagenette_mini/train

``--memory`` compares batches of small views of images that are kept in memory with views that are
made one by one from files; it is all that it prints.

All contenders read the same files in one process and take turns; the best round of each counts, in
CPU time.
Exits with 1 if ours is below 4x the stock pipeline or 2x torchvision.
More tables have the share of each step of ours, and what a batch costs on its way to the model.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import ttl_mm.datasets  # noqa: F401  isort: skip
import cv2
import numpy as np
import torch
from mmcv.transforms import BaseTransform, Compose
from mmengine.config import Config
from mmengine.dataset import default_collate
from mmengine.registry import init_default_scope
from mmpretrain.datasets import PackInputs
from mmpretrain.models import SelfSupDataPreprocessor
from PIL import Image, ImageFilter
from torch.utils.data import DataLoader
from torchvision.transforms import v2

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.datasets import EpochSampler, ImageFolder, RandomViews, color, decode, views
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.train_loader import train_loader

ROOT = Path(__file__).resolve().parents[2]
NEEDED = {'mmpretrain': 4.0, 'torchvision': 2.0}
TITLES = {
    'mmpretrain': "mmpretrain's own transforms", 'torchvision': 'torchvision v2 on PIL',
    'ours': 'RandomViews',
}  # fmt: skip


def stock_pipeline(size: int) -> Compose:
    """The pipeline of the config that keeps mmpretrain's own transforms."""
    config = Config.fromfile(ROOT / 'configs/_base_/datasets/imagenet_stock.py')
    pipeline = config.train_dataloader.dataset.pipeline
    for view in pipeline[1].transforms:
        view[0].scale = size
    return Compose(pipeline)


class OnPillow(BaseTransform):
    """torchvision v2 on PIL images; the blur is Pillow's, which is faster than v2.GaussianBlur."""

    def __init__(self, size: int):
        def steps(blur: float, solarize: float) -> list:
            return [
                v2.RandomResizedCrop(size, interpolation=v2.InterpolationMode.BICUBIC),
                v2.RandomHorizontalFlip(),
                v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
                v2.RandomGrayscale(0.2),
                v2.RandomApply([PillowBlur()], p=blur),
                v2.RandomSolarize(128, p=solarize),
                v2.PILToTensor(),
            ]

        self.views = [steps(1.0, 0.0), steps(0.1, 0.2)]

    def transform(self, results: dict) -> dict:
        image = load_pillow(results['img_path'])
        results['img'] = []
        for steps in self.views:
            view = image
            for step in steps:
                view = step(view)
            results['img'].append(view)
        return results


class PillowBlur(torch.nn.Module):
    def forward(self, image: Image.Image) -> Image.Image:
        return image.filter(ImageFilter.GaussianBlur(float(torch.empty(1).uniform_(0.1, 2.0))))


def load_pillow(path: str) -> Image.Image:
    return Image.open(path).convert('RGB')


def pipelines(size: int) -> dict[str, Compose]:
    ours = RandomViews([dict(size=size), dict(size=size, blur=0.1, solarize=0.2)])
    return {
        'mmpretrain': stock_pipeline(size),
        'torchvision': Compose([OnPillow(size), PackInputs()]),
        'ours': Compose([ours, PackInputs()]),
    }


@contextmanager
def step_times(pipeline: Compose):
    """Yield a dict that collects the seconds of each step of ours while the context is open."""
    seconds = defaultdict(float)

    def timed(step: str, function):
        def run(*args, **kwargs):
            start = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                seconds[step] += time.process_time() - start

        return run

    with ExitStack() as stack:

        def watch(step: str, owner, attribute: str):
            wrapped = timed(step, getattr(owner, attribute))
            stack.enter_context(mock.patch.object(owner, attribute, wrapped))

        watch('pack', pipeline.transforms[-1], 'transform')
        watch('decode', views, 'open_image')
        watch('decode', decode, '_decode_jpeg')
        watch('draw', views, 'draw_view')
        watch('crop + resize', views, 'resized_crop')
        watch('gray', color, 'to_gray')
        watch('blur', color, 'gaussian_blur')
        watch('solarize', color, 'solarize')
        watch('to tensor', views, 'to_tensor')
        jitter = {key: timed(key, value) for key, value in color.JITTER.items()}
        stack.enter_context(mock.patch.dict(color.JITTER, jitter))
        yield seconds


def image_folder(files: list[Path], pipeline: Compose) -> ImageFolder:
    with tempfile.NamedTemporaryFile('w', suffix='.txt') as names:
        names.write('\n'.join(str(path.resolve()) for path in files))
        names.flush()
        return ImageFolder('', pipeline.transforms, list_file=names.name)


def one_core(files: list[Path], size: int, rounds: int) -> dict[str, float]:
    """Images per second of each contender, which take turns."""
    folders = {name: image_folder(files, pipeline) for name, pipeline in pipelines(size).items()}
    best = dict.fromkeys(folders, float('inf'))
    for _ in range(rounds):
        for name, folder in folders.items():
            start = time.process_time()
            for index in range(len(folder)):
                folder[SampleIndex(index)]
            best[name] = min(best[name], time.process_time() - start)
    return {name: len(files) / seconds for name, seconds in best.items()}


def shares(files: list[Path], size: int) -> dict[str, float]:
    """Share of the time of each step of ours, the longest first."""
    pipeline = pipelines(size)['ours']
    folder = image_folder(files, pipeline)
    with step_times(pipeline) as seconds:
        start = time.process_time()
        for index in range(len(folder)):
            folder[SampleIndex(index)]
        total = time.process_time() - start
    seconds['rest'] = total - sum(seconds.values())
    return {k: v / total for k, v in sorted(seconds.items(), key=lambda item: -item[1])}


def cpu_seconds() -> float:
    """CPU time of this process and of the workers that it has started (Linux)."""
    stats = (Path(f'/proc/{child.pid}/stat') for child in multiprocessing.active_children())
    ticks = sum(
        int(n) for stat in stats for n in stat.read_text().rpartition(')')[2].split()[11:13]
    )
    return time.process_time() + ticks / os.sysconf('SC_CLK_TCK')


def with_workers(files: list[Path], size: int, workers: int, rounds: int) -> dict[str, float]:
    """Images per CPU second through the loader of training, collation and hand-over included."""
    loaders = {}
    for name, pipeline in pipelines(size).items():
        folder = image_folder(files, pipeline)
        loader = DataLoader(
            folder,
            batch_size=32,
            sampler=EpochSampler(folder, seed=0),
            num_workers=workers,
            collate_fn=default_collate,
            persistent_workers=True,
        )
        loaders[name] = train_loader(loader, seed=0)
    best = dict.fromkeys(loaders, float('inf'))
    for round_ in range(rounds + 1):  # the first one starts the workers
        for name, loader in loaders.items():
            start = cpu_seconds()
            for _ in loader:
                pass
            if round_:
                best[name] = min(best[name], cpu_seconds() - start)
    return {name: len(files) / seconds for name, seconds in best.items()}


def batch_cost(size: int, batch_size: int = 104, rounds: int = 5) -> list[list[str]]:
    """Rows of what a batch costs from samples to normalized input, in uint8 or in float."""
    preprocess = SelfSupDataPreprocessor(
        mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True
    )
    image = torch.randint(0, 256, (3, size, size), dtype=torch.uint8)
    rows = []
    for name, dtype in (('uint8', torch.uint8), ('float32', torch.float32)):
        packed = PackInputs()({'img': [image.to(dtype)] * 2})
        collate, normalize = [], []
        for _ in range(rounds):
            start = time.process_time()
            batch = default_collate([packed] * batch_size)
            collate.append(time.process_time() - start)
            start = time.process_time()
            preprocess(batch)
            normalize.append(time.process_time() - start)
        megabytes = 2 * batch_size * 3 * size**2 * dtype.itemsize / 1e6
        times = (f'{1e3 * statistics.median(each):.0f} ms' for each in (collate, normalize))
        rows.append([f'2 x {batch_size} views in {name}', f'{megabytes:.0f} MB', *times])
    return rows


def in_memory(files: list[Path], sizes: tuple[int, ...], rounds: int) -> None:
    """CPU time of a batch of two views, one by one from files, and at once from memory."""
    rows = []
    for size in sizes:
        loaders = []
        for memory in (False, True):
            step = RandomViews([dict(size=size, num=2, area=(0.2, 1.0))], in_memory=memory)
            folder = image_folder(files, Compose([step, PackInputs()]))
            plain = DataLoader(folder, 52, sampler=EpochSampler(folder, seed=0), drop_last=True,
                               collate_fn=default_collate)  # fmt: skip
            loaders.append(train_loader(plain, seed=0))
        best = [float('inf')] * 2
        for round_ in range(rounds + 1):
            for i, loader in enumerate(loaders):
                start = time.process_time()
                for _ in loader:
                    pass
                if round_:  # the first one reads the images
                    best[i] = min(best[i], time.process_time() - start)
        first, second = (1e3 * seconds / len(files) for seconds in best)
        ratio = f'{first / second:.1f}x'
        rows.append([f'{size} px', f'{first:.2f} ms an image', f'{second:.2f} ms', ratio])
    header = ['two views of', 'one by one, from files', 'at once, from memory', 'ratio']
    print(markdown(header, rows))


def generate(folder: Path, count: int, height: int = 375, width: int = 500) -> list[Path]:
    """JPEGs with the 1/f spectrum of photographs."""
    rng = np.random.default_rng(0)
    fy, fx = np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None]
    falloff = np.maximum(np.hypot(fy, fx), 1 / width) ** -1.2
    paths = []
    for i in range(count):
        waves = np.fft.irfft2(
            np.fft.rfft2(rng.standard_normal((3, height, width))) * falloff, (height, width)
        )
        gray = waves[:1] / waves[:1].std() * 45
        colors = waves / waves.std((1, 2), keepdims=True) * 20
        image = (118 + gray + colors).clip(0, 255).astype(np.uint8).transpose(1, 2, 0)
        paths.append(folder / f'{i:04}.jpg')
        Image.fromarray(image).save(paths[-1], quality=90)
    return paths


def report(files: list[Path], size: int, rounds: int) -> dict[str, str]:
    """Cells of the table by the name of their row."""
    speed = one_core(files, size, rounds)
    cells = {TITLES[name]: f'{value:.0f} images/s' for name, value in speed.items()}
    for name, needed in NEEDED.items():
        ratio = speed['ours'] / speed[name]
        note = '' if ratio >= needed else f', {needed:g}x needed'
        cells[f'ours / {name}'] = f'{ratio:.1f}x{note}'
    for workers in (1, 2):
        speed = with_workers(files, size, workers, rounds)
        where = f'through the training loader, {workers} worker{"s" * (workers > 1)}'
        cells[f'{where}, ours / mmpretrain'] = f'{speed["ours"] / speed["mmpretrain"]:.1f}x'
    return cells


def mean_shape(files: list[Path]) -> str:
    """Width and height on average."""
    width, height = np.mean([Image.open(path).size for path in files], axis=0)
    return f'{width:.0f} x {height:.0f}'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--data', type=Path, help='a folder of JPEGs, beside generated ones')
    parser.add_argument('--images', type=int, default=192)
    parser.add_argument('--size', type=int, default=224)
    parser.add_argument('--rounds', type=int, default=4)
    parser.add_argument('--memory', action='store_true', help='small views of images in memory')
    args = parser.parse_args()
    init_default_scope('mmpretrain')
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sources = {}
        if args.data is not None:
            found = sorted(p for p in args.data.rglob('*') if p.suffix.lower() in ('.jpg', '.jpeg'))
            if not found:
                parser.error(f'no JPEG below {args.data}')
            sources['photos'] = found[:: max(1, len(found) // args.images)][: args.images]
        if args.memory:
            files = sources.get('photos') or generate(Path(folder), args.images)
            in_memory(files, (24, 48, 72, 96), args.rounds)
            return 0
        sources['generated'] = generate(Path(folder), args.images)
        cells = {name: report(files, args.size, args.rounds) for name, files in sources.items()}
        parts = shares(sources['generated'], args.size)
        names = [f'{name}, {mean_shape(files)}' for name, files in sources.items()]
    titles = next(iter(cells.values()))
    rows = [[title, *(found[title] for found in cells.values())] for title in titles]
    print(markdown([f'two views of {args.size} px, decoding included', *names], rows))
    print()
    header = [f'of RandomViews, {names[-1]}', *parts]
    print(markdown(header, [['share of the time', *(f'{v:.0%}' for v in parts.values())]]))
    print()
    print(markdown(['a batch', 'size', 'collate', 'normalize, on the CPU'], batch_cost(args.size)))
    return int(any('needed' in cell for found in cells.values() for cell in found.values()))


if __name__ == '__main__':
    sys.exit(main())
