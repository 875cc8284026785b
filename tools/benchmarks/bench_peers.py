"""Accuracy against time of other libraries as they are shipped, and of ours.

    taskset -c 1 python tools/benchmarks/bench_peers.py --data data/imagenette_mini --epochs 6

DATA holds ``train/CLASS/*`` and ``val/CLASS/*``. Every contender trains a ResNet-18 on images of
``train`` at one size, in one process with one thread and without workers, and is judged by ``ttl
eval`` on its exported weights: kNN (k = 20) and linear, on images of that size. Seconds are CPU
seconds of the training call, imports left out. Each library gets a virtual environment of its own
below ``--envs``, made at first use from the package index that pip is set up with; nothing is
installed into this one. A contender that has a result below ``--out`` is not run again.
"""

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEIGHBORS = 20

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
schedule = 'param_scheduler'
options = {{
    'train_dataloader.dataset.data_root': '{data}/train', 'train_dataloader.num_workers': 0,
    'train_dataloader.persistent_workers': False, 'train_dataloader.batch_size': {batch},
    'train_dataloader.dataset.pipeline.0.views.0.size': {small},
    'train_dataloader.dataset.pipeline.0.views.1.size': {small},
    'train_cfg.max_epochs': {epochs}, schedule + '.0.end': max(1, {epochs} // 10),
    schedule + '.1.T_max': {epochs}, schedule + '.1.end': {epochs},
    'default_hooks.checkpoint.interval': {epochs},
}}
start = time.process_time()
train('configs/own_images/ttl_soft_r18_1xb104_100e.py', work_dir='{out}/run', cfg_options=options)
seconds = time.process_time() - start
print(json.dumps(dict(seconds=seconds, weights='{out}/run/epoch_{epochs}.pth')))
"""


@dataclass(frozen=True)
class Contender:
    """A script, what to fill into it, and the packages of its environment; none is this one."""

    script: str
    packages: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


CONTENDERS = {
    'ours': Contender(OURS),
    'LightlyTrain 0.18, simclr': Contender(
        LIGHTLY_TRAIN, ('lightly-train==0.18.0',), {'method': 'simclr'}
    ),
    'LightlyTrain 0.18, dino': Contender(
        LIGHTLY_TRAIN, ('lightly-train==0.18.0',), {'method': 'dino'}
    ),
    'LightlySSL, SimCLR': Contender(LIGHTLY, ('lightly',)),
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


def train(contender: Contender, args: argparse.Namespace, out: Path) -> dict:
    """Seconds and weights of one contender."""
    out.mkdir(parents=True, exist_ok=True)
    values = dict(
        data=args.data.resolve(), out=out.resolve(), epochs=args.epochs, batch=args.batch_size,
        size=args.size, small=args.size * 3 // 4,
    )  # fmt: skip
    script = contender.script.format(**values, **dict(contender.values))
    preamble = OPERATORS if contender.packages else ''
    python = python_of(contender.packages, args.envs)
    environment = {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': str(ROOT)}
    if contender.packages:
        del environment['PYTHONPATH']
    with (out / 'output.txt').open('w') as log:
        done = subprocess.run(
            [python, '-c', preamble + script],
            stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT, env=environment, check=True,
        )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def evaluate(weights: str, args: argparse.Namespace, out: Path) -> dict[str, float]:
    """KNN and linear accuracy by ``ttl eval``."""
    command = [sys.executable, '-m', 'ttl_mm', 'eval', weights, '--data', str(args.data), '--knn']
    command += ['--linear', '--neighbors', str(NEIGHBORS), '--size', str(args.size)]
    command += ['--workers', '0', '--out', str(out / 'eval')]
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    figures = json.loads((out / 'eval' / 'figures.json').read_text())
    return {figure['protocol']: figure['value'] for figure in figures}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--data', type=Path, required=True)
    parser.add_argument('--epochs', type=int, default=6)
    parser.add_argument('--batch-size', type=int, default=104)
    parser.add_argument('--size', type=int, default=64)
    parser.add_argument('--envs', type=Path, default=Path('work_dirs/peers/envs'))
    parser.add_argument('--out', type=Path, default=Path('work_dirs/peers'))
    parser.add_argument('--only', nargs='*', choices=CONTENDERS, default=list(CONTENDERS))
    args = parser.parse_args()
    for name in args.only:
        out = args.out / f'{name.replace(" ", "_").replace(",", "")}_{args.epochs}e'
        result = out / 'result.json'
        if not result.is_file():
            found = train(CONTENDERS[name], args, out)
            found |= evaluate(found['weights'], args, out)
            result.write_text(json.dumps(found, indent=1))
        print(name, f'{args.epochs} epochs', result.read_text(), flush=True)


if __name__ == '__main__':
    main()
