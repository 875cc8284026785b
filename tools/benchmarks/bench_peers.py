"""Accuracy against time of other libraries as they are shipped, and of ours.

    python tools/benchmarks/bench_peers.py run --data data/imagenette_mini --epochs 10
    python tools/benchmarks/bench_peers.py run --data data/imagenette_mini --epochs 4 --only ours
    python tools/benchmarks/bench_peers.py table

DATA holds ``train/CLASS/*`` and ``val/CLASS/*``. Every contender trains a ResNet-18 on images of
``train`` at one size, in one process with one thread and without workers, and is judged by ``ttl
eval`` on its exported weights: kNN (k = 20) and linear, on images of that size. Ours is what ``ttl
train --size SIZE --epochs N`` plans, trained by ``tools/train.py``.

Seconds are CPU seconds of the training call, imports left out. Where other work runs on the
machine, a CPU second is worth less, so a fixed piece of work is timed before and after each
contender, and its seconds are given in those of the least busy moment as well.

Each library gets a virtual environment of its own below ``--envs``, made at first use from the
package index that pip is set up with; nothing is installed into this one. A contender that has a
result below ``--out`` is not run again.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
NEIGHBORS = 20
TORCH = 'torch==2.13.0'  # ours, so that all compute by the same kernels

# torchvision's CUDA build beside a CPU build of torch does not find two of its operators
OPERATORS = """
import torch
try:
    import torchvision
except RuntimeError:
    library = torch.library.Library('torchvision', 'FRAGMENT')
    for name in ('nms', 'qnms'):
        library.define(f'{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor')
"""
LIGHTLY_TRAIN = """
import json, time
import lightly_train
start = time.process_time()
lightly_train.pretrain(
    out='{out}/run', data='{data}/train', model='torchvision/resnet18', method='{method}',
    epochs={epochs}, batch_size={batch}, num_workers=0, precision='32-true', accelerator='cpu',
    devices=1, overwrite=True, transform_args=dict(image_size=({size}, {size})),
)
seconds = time.process_time() - start
weights = '{out}/run/exported_models/exported_last.pt'
print(json.dumps(dict(seconds=seconds, weights=weights)))
"""
LIGHTLY = """
import json, time
import torch, torchvision
from lightly.data import LightlyDataset
from lightly.loss import NTXentLoss
from lightly.models.modules import SimCLRProjectionHead
from lightly.transforms import SimCLRTransform
torch.manual_seed(0)
images = LightlyDataset('{data}/train', transform=SimCLRTransform(input_size={size}))
loader = torch.utils.data.DataLoader(images, {batch}, shuffle=True, drop_last=True)
start = time.process_time()
network = torchvision.models.resnet18()
network.fc = torch.nn.Identity()
head, loss_of = SimCLRProjectionHead(512, 512, 128), NTXentLoss()
optimizer = torch.optim.SGD([*network.parameters(), *head.parameters()], lr=0.06)
for epoch in range({epochs}):
    for views, *_ in loader:
        loss = loss_of(*(head(network(view)) for view in views))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
seconds = time.process_time() - start
torch.save(network.state_dict(), '{out}/weights.pth')
print(json.dumps(dict(seconds=seconds, weights='{out}/weights.pth')))
"""
OURS = """
import json, time
from ttl_mm.engine.runner.launch import train
options = {{'train_dataloader.num_workers': 0, 'train_dataloader.persistent_workers': False}}
start = time.process_time()
train('{out}/plan.py', work_dir='{out}/run', cfg_options=options)
seconds = time.process_time() - start
print(json.dumps(dict(seconds=seconds, weights='{out}/run/epoch_{epochs}.pth')))
"""
WITH_SGD = """
from mmengine.config import Config
plan = Config.fromfile('{out}/plan.py')
plan.optim_wrapper.optimizer = dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=1e-4)
plan.dump('{out}/plan.py')
"""


@dataclass(frozen=True)
class Contender:
    """A script, what to fill into it, and the packages of its environment; none is this one."""

    script: str
    packages: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


CONTENDERS = {
    'ours': Contender(OURS),
    'ours with SGD': Contender(WITH_SGD + OURS),  # what our optimizer is worth
    'LightlyTrain 0.18, simclr': Contender(
        LIGHTLY_TRAIN, (TORCH, 'lightly-train==0.18.0'), {'method': 'simclr'}
    ),
    'LightlyTrain 0.18, dino': Contender(
        LIGHTLY_TRAIN, (TORCH, 'lightly-train==0.18.0'), {'method': 'dino'}
    ),
    'LightlySSL 1.6, SimCLR': Contender(LIGHTLY, (TORCH, 'lightly==1.6.0')),
}  # fmt: skip


def python_of(packages: tuple[str, ...], envs: Path) -> str:
    """The interpreter of an environment with these packages, made if it is not there."""
    if not packages:
        return sys.executable
    folder = envs / '_'.join(packages).replace('=', '')
    python, done = folder / 'bin' / 'python', folder / 'complete'
    if not done.is_file():
        print(f'making {folder}', flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(python), '-m', 'pip', 'install', '--quiet', *packages], check=True)
        done.touch()
    return str(python)


def seconds_of_fixed_work() -> float:
    """CPU seconds of convolutions that take about a second: how fast the machine is just now."""
    torch.set_num_threads(1)
    network = nn.Sequential(*[nn.Conv2d(64, 64, 3, padding=1) for _ in range(4)])
    images = torch.ones(16, 64, 32, 32)
    start = time.process_time()
    for _ in range(10):
        network(images).sum().backward()
    return time.process_time() - start


def train(contender: Contender, args: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Seconds and weights of one contender."""
    out.mkdir(parents=True, exist_ok=True)
    values = dict(
        data=args.data.resolve(), out=out.resolve(), epochs=args.epochs, batch=args.batch_size,
        size=args.size,
    )  # fmt: skip
    script = contender.script.format(**values, **dict(contender.values))
    preamble = OPERATORS if contender.packages else ''
    python = python_of(contender.packages, args.envs)
    environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': str(ROOT)}
    if contender.packages:
        del environment['PYTHONPATH']
    else:
        plan = [python, '-m', 'ttl_mm', 'train', str(args.data / 'train'), '--dry-run']
        plan += ['--size', str(args.size), '--epochs', str(args.epochs)]
        plan += ['--config-out', str(out / 'plan.py'), '--out', str(out / 'planned')]
        subprocess.run([*plan, *args.options], check=True, cwd=ROOT, env=environment)
    before = seconds_of_fixed_work()
    with (out / 'output.txt').open('w') as log:
        done = subprocess.run(
            [python, '-c', preamble + script],
            stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env=environment, check=True,
        )  # fmt: skip
    found = json.loads(done.stdout.splitlines()[-1])
    return found | {'fixed_work': [round(before, 3), round(seconds_of_fixed_work(), 3)]}


def evaluate(weights: str, args: argparse.Namespace, out: Path) -> dict[str, float]:
    """KNN and linear accuracy by ``ttl eval``."""
    command = [sys.executable, '-m', 'ttl_mm', 'eval', weights, '--data', str(args.data), '--knn']
    command += ['--linear', '--neighbors', str(NEIGHBORS), '--size', str(args.size)]
    command += ['--workers', '0', '--out', str(out / 'eval')]
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    figures = json.loads((out / 'eval' / 'figures.json').read_text())
    names = {'weighted kNN, cosine': 'knn', 'logistic regression on frozen features': 'linear'}
    return {names[figure['protocol']]: figure['value'] for figure in figures}


def run(args: argparse.Namespace) -> None:
    """Train and judge what has no result yet."""
    for name in args.only:
        label = '_'.join([name.replace(',', ''), f'{args.epochs}e', *args.options])
        out = args.out / label.replace(' ', '_')
        result = out / 'result.json'
        if not result.is_file():
            found = train(CONTENDERS[name], args, out)
            found |= evaluate(found['weights'], args, out)
            found |= {'name': ' '.join([name, *args.options]), 'epochs': args.epochs}
            result.write_text(json.dumps(found, indent=1))
        print(result.read_text(), flush=True)


def table(folder: Path) -> str:
    """All results, the best kNN first."""
    found = [json.loads(path.read_text()) for path in folder.glob('*/result.json')]
    least = min(min(f['fixed_work']) for f in found)
    lines = ['| contender | epochs | CPU s | the same, machine not busy | kNN | linear |']
    lines.append('| --- ' * 6 + '|')
    for f in sorted(found, key=lambda f: -f['knn']):
        quiet = f['seconds'] * least / mean(f['fixed_work'])
        lines.append(
            f'| {f["name"]} | {f["epochs"]} | {f["seconds"]:.0f} | {quiet:.0f} | {f["knn"]:.1f} | '
            f'{f["linear"]:.1f} |'
        )
    return '\n'.join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', choices=['run', 'table'])
    parser.add_argument('--data', type=Path, default=Path('data/imagenette_mini'))
    parser.add_argument('--epochs', type=int, default=10)
    parser.add_argument('--batch-size', type=int, default=104, help='of the others')
    parser.add_argument('--size', type=int, default=64)
    parser.add_argument('--envs', type=Path, default=Path('work_dirs/peers/envs'))
    parser.add_argument('--out', type=Path, default=Path('work_dirs/peers'))
    parser.add_argument('--only', nargs='*', choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument('--options', nargs='*', default=[], help='of ttl train, for ours')
    args = parser.parse_args()
    if args.what == 'run':
        run(args)
    else:
        print(table(args.out))


if __name__ == '__main__':
    main()
