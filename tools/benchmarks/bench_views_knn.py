"""Does the fast data path train as well as the stock one? kNN accuracy over seeds, on a CPU.

    python tools/benchmarks/bench_views_knn.py data/cifar10_mini --out work_dirs/views_knn.jsonl

Trains a small network from the same start with both kinds of views, once per seed. Each finished
run is a line in --out, and a run that has its line is not repeated: stop and continue at will.
Exits with 1 if the means differ by more than the seeds of either.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import ttl_mm.registry  # noqa: F401  isort: skip
import numpy as np
import torch
from mmengine.config import Config
from mmengine.registry import RUNNERS

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown
from ttl_mm.datasets import ImageFolder, decode_image
from ttl_mm.datasets.folder_scan import scan_folder
from ttl_mm.evaluation.knn import knn_classify

CONFIGS = Path(__file__).resolve().parents[2] / 'configs'
SIZE = 32
AREA, BLUR, SIGMA = (0.2, 1.0), (0.5, 0.1), (0.1, 1.0)
VIEWS = ('stock', 'ours')


def pipeline(name: str) -> list[dict]:
    """The pipeline of a shipped config for 32 px: larger crops, and half the blur."""
    file = {'ours': 'imagenet.py', 'stock': 'imagenet_stock.py'}[name]
    steps = Config.fromfile(CONFIGS / '_base_/datasets' / file).train_dataloader.dataset.pipeline
    for view, blur in zip(steps[0].get('views', []), BLUR):
        view.update(size=SIZE, area=AREA, blur=blur, sigma=SIGMA)
    for view, blur in zip(steps[1].get('transforms', []), BLUR):
        by_type = {step.type: step for step in view}
        by_type['RandomResizedCrop'].update(scale=SIZE, crop_ratio_range=AREA)
        by_type['GaussianBlur'].update(prob=blur, magnitude_range=SIGMA)
    return steps


def config(data: Path, list_file: Path, name: str, seed: int, epochs: int, work_dir: str) -> Config:
    # SimCLR: of all methods here it learns most in a few hundred steps, so a difference would show
    cfg = Config.fromfile(CONFIGS / 'baselines/simclr_r14_cifar10mini_1xb104_20e.py')
    cfg.train_dataloader.dataset.update(
        data_root=str(data), list_file=str(list_file), with_label=False, pipeline=pipeline(name)
    )
    cfg.param_scheduler[1].update(T_max=epochs, end=epochs)
    cfg.train_cfg.max_epochs = epochs
    cfg.default_hooks.update(checkpoint=None, probe=None)
    cfg.vis_backends = cfg.visualizer.vis_backends = [dict(type='LocalVisBackend')]
    cfg.update(
        randomness=dict(seed=seed), work_dir=work_dir, experiment_name=f'{name}_{seed}',
        log_level='ERROR', load_from=None, resume=False,
    )  # fmt: skip
    return cfg


@torch.no_grad()
def features(model: torch.nn.Module, folder: ImageFolder) -> tuple[torch.Tensor, torch.Tensor]:
    """Pooled backbone features (N, D) and labels (N,)."""
    model.eval()
    found = []
    for start in range(0, len(folder), 500):
        paths = [folder.get_data_info(i)['img_path'] for i in range(len(folder))[start:][:500]]
        images = np.stack([decode_image(path) for path in paths])
        batch = {'inputs': [torch.from_numpy(images).permute(0, 3, 1, 2)], 'data_samples': None}
        inputs = model.data_preprocessor(batch)['inputs'][0]
        found.append(model.backbone(inputs)[-1].mean((2, 3)))
    return torch.cat(found), torch.from_numpy(folder.get_gt_labels()).long()


def accuracy(model: torch.nn.Module, train: ImageFolder, test: ImageFolder) -> float:
    """KNN top-1 in percent."""
    known, labels = features(model, train)
    asked, truth = features(model, test)
    return 100 * (knn_classify(known, labels, asked) == truth).double().mean().item()


def one_run(data: Path, name: str, seed: int, epochs: int, images: int) -> dict:
    """Train and evaluate; returns a line for --out."""
    names = list(scan_folder(str(data / 'train')))
    chosen = names[:: max(1, len(names) // images)][:images]
    with tempfile.TemporaryDirectory() as work_dir:
        list_file = Path(work_dir) / 'train.txt'
        list_file.write_text('\n'.join(chosen))
        train = ImageFolder(str(data / 'train'), list_file=str(list_file), with_label=True)
        test = ImageFolder(str(data / 'test'), with_label=True)
        runner = RUNNERS.build(config(data / 'train', list_file, name, seed, epochs, work_dir))
        untrained = accuracy(runner.model, train, test)
        start = time.perf_counter()
        runner.train()
        seconds = time.perf_counter() - start
        top1 = accuracy(runner.model, train, test)
    return {
        'views': name,
        'seed': seed,
        'epochs': epochs,
        'images': len(chosen),
        'untrained': round(untrained, 2),
        'knn_top1': round(top1, 2),
        'seconds': round(seconds),
    }


def summary(lines: list[dict]) -> bool:
    """Print all figures and the means; whether these agree within the spread over seeds."""
    found = {
        name: {line['seed']: line for line in lines if line['views'] == name} for name in VIEWS
    }
    stock, ours = (found[name] for name in VIEWS)
    rows = [
        [
            seed,
            *(
                f'{v:.2f}'
                for v in (ours[seed]['untrained'], stock[seed]['knn_top1'], ours[seed]['knn_top1'])
            ),
        ]
        for seed in sorted(stock.keys() & ours.keys())
    ]
    values = [[line['knn_top1'] for line in found[name].values()] for name in VIEWS]
    spreads = [max(each) - min(each) for each in values]
    means = [statistics.mean(each) for each in values]
    rows.append(['mean', '', *(f'{mean:.2f}' for mean in means)])
    rows.append(['spread', '', *(f'{spread:.2f}' for spread in spreads)])
    print(markdown(['seed', 'untrained', "mmpretrain's transforms", 'RandomViews'], rows))
    return abs(means[1] - means[0]) <= max(spreads)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('data', type=Path, help='a folder with train/CLASS and test/CLASS')
    parser.add_argument('--out', type=Path, required=True, help='one JSON line per finished run')
    parser.add_argument('--views', nargs='+', default=VIEWS, choices=VIEWS)
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--epochs', type=int, default=8)
    parser.add_argument('--images', type=int, default=3000)
    args = parser.parse_args()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.touch()
    lines = [json.loads(line) for line in args.out.read_text().splitlines()]
    done = {(line['views'], line['seed']) for line in lines}
    for seed in args.seeds:
        for name in args.views:
            if (name, seed) not in done:
                lines.append(one_run(args.data, name, seed, args.epochs, args.images))
                with args.out.open('a') as file:
                    file.write(json.dumps(lines[-1]) + '\n')
                print(lines[-1], file=sys.stderr, flush=True)
    return 0 if summary(lines) else 1


if __name__ == '__main__':
    sys.exit(main())
