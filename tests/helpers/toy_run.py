"""Real training runs of a second, in processes of their own that share this one's imports.

A forked child starts in milliseconds, so a test can afford dozens of runs.
"""

import os
import random
import signal
import socket
import sys
import time
import warnings
from functools import partial
from importlib import import_module
from pathlib import Path

import cv2
import numpy as np
import torch
from mmengine.hooks import Hook
from mmengine.model import BaseModel, ExponentialMovingAverage
from mmengine.registry import HOOKS, MODELS
from torch import nn

from tests.helpers.checkpoints import assert_bit_equal
from tests.helpers.forked import fork, wait
from tests.helpers.loggers import forget_loggers, forget_scope
from ttl_mm.checkpoint.sealed import newest_valid, read_sealed
from ttl_mm.engine.runner.launch import exit_code, train

# once, here: each child would import what a run needs again
for _module in ('mmpretrain.engine', 'mmpretrain.visualization', 'setuptools', 'ttl_mm.engine',
                'yapf.yapflib.yapf_api'):  # fmt: skip
    import_module(_module)

STOCK_VIEWS = """[
    dict(type='LoadImageFromFile'),
    dict(type='MultiView', num_views=[2], transforms=[[
        dict(type='RandomFlip', prob=0.5), dict(type='ColorJitter', brightness=0.4, hue=0.1)]]),
    dict(type='PackInputs'),
]"""
OUR_VIEWS = """[
    dict(type='ttl_mm.RandomViews', views=[dict(size=8), dict(size=8)]), dict(type='PackInputs'),
]"""
GROWING_VIEWS = """[
    dict(type='ttl_mm.RandomViews', views=[dict(size=8, num=2, later_sizes=[(2, 12)])]),
    dict(type='PackInputs'),
]"""
WITHOUT_TARGET = """dict(
    type='ttl_mm.TTLAlgorithm', target_momentum=None, online_sizes=None, target_sizes=None,
    backbone=dict(
        type='ResNet_CIFAR', depth=18, base_channels=4, stem_channels=4, num_stages=1,
        strides=(2,), dilations=(1,), out_indices=(0,)),
    neck=dict(type='NonLinearNeck', in_channels=4, hid_channels=8, out_channels=8),
    head=dict(
        type='ttl_mm.TruncatedTripletHead', predictor=None, gamma=1.0, deputy=(1, 4),
        deputy_temperature=0.1, both_views=True, gather_negatives=True))"""
EPOCHS = "dict(type='EpochBasedTrainLoop', max_epochs=4)"
ITERATIONS = "dict(type='IterBasedTrainLoop', max_iters=20)"
LONG = "dict(type='IterBasedTrainLoop', max_iters=100000)"
STOP = "custom_hooks = [dict(type='SignalHook', at={})]\n"  # for ``more`` of a config


@MODELS.register_module(force=True)
class ToyModel(BaseModel):
    """BatchNorm, dropout, a target network, three generators: all that a resume could lose."""

    def __init__(self, sync_bn: bool = False, init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg=init_cfg)
        norm = nn.SyncBatchNorm if sync_bn else nn.BatchNorm1d
        self.backbone = nn.Sequential(
            nn.Flatten(), nn.Linear(192, 8), norm(8), nn.ReLU(), nn.Dropout(0.3)
        )
        self.neck = nn.Linear(8, 6)
        self.target = ExponentialMovingAverage(nn.Sequential(self.backbone, self.neck), 0.1)

    def forward(self, inputs, data_samples=None, mode='loss'):
        if mode == 'predict':
            return [self.neck(self.backbone(inputs.float() / 255)).mean().item()]
        first, second = (torch.stack(list(view)).float() / 255 for view in inputs)
        second = second * np.random.uniform(0.8, 1.2) + random.random() * 0.1
        second = second + 0.01 * torch.randn_like(second)
        with torch.no_grad():
            self.target.update_parameters(nn.Sequential(self.backbone, self.neck))
            goal = self.target(second)
        return {'loss': (self.neck(self.backbone(first)) - goal - 1).square().mean()}


@HOOKS.register_module(force=True)
class CurveHook(Hook):
    """Write every loss, as hexadecimal digits, into the work_dir."""

    priority = 'VERY_HIGH'

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        with open(Path(runner.work_dir) / f'curve_{runner.rank}.txt', 'a') as file:
            file.write(f'{runner.iter + 1} {outputs["loss"].item().hex()}\n')


@HOOKS.register_module(force=True)
class ImagesHook(Hook):
    """Write the epoch and the name of every image that a rank trains on into the work_dir."""

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        epoch = runner.train_loop.position.epoch
        with open(Path(runner.work_dir) / f'images_{runner.rank}.txt', 'a') as file:
            for sample in data_batch['data_samples']:
                file.write(f'{epoch} {Path(sample.img_path).name}\n')


@HOOKS.register_module(force=True)
class SignalHook(Hook):
    """Send a signal to this very process after an iteration."""

    priority = 'VERY_HIGH'

    def __init__(self, at: int, number: int = signal.SIGTERM, rank: int = 0) -> None:
        self.at, self.number, self.rank = at, number, rank

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == self.at and runner.rank == self.rank:
            os.kill(os.getpid(), self.number)


def kill_at(step: int) -> None:
    """Let this process kill itself when it has written the loss of a step, before it saves."""
    original = CurveHook.after_train_iter

    def dying(self, runner, *args, **kwargs) -> None:
        original(self, runner, *args, **kwargs)
        if runner.iter + 1 == step:
            os.kill(os.getpid(), signal.SIGKILL)

    CurveHook.after_train_iter = dying


def make_images(folder: Path, number: int = 22) -> Path:
    """Random 8 x 8 images in two sub-folders."""
    rng = np.random.default_rng(0)
    for i in range(number):
        path = folder / f'class_{i % 2}' / f'{i:03}.png'
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), rng.integers(0, 256, (8, 8, 3), dtype=np.uint8))
    return folder


def write_config(
    path: Path, images: Path, loop: str = EPOCHS, workers: int = 0, accumulation: int = 1,
    checkpoint: str = "dict(type='ttl_mm.CheckpointHook', interval=1, max_keep_ckpts=1)",
    timeout: int = 60, pipeline: str = STOCK_VIEWS, model: str = "dict(type='ToyModel')",
    more: str = '',
) -> Path:  # fmt: skip
    """Write the config of a toy run: 20 iterations, in epochs of five on one rank."""
    path.write_text(f"""
custom_imports = dict(imports=['tests.helpers.toy_run'])
default_scope = 'mmpretrain'
model = {model}
train_dataloader = dict(
    batch_size=4, num_workers={workers}, persistent_workers={workers > 0}, drop_last=True,
    sampler=dict(type='DefaultSampler', shuffle=True), collate_fn=dict(type='default_collate'),
    dataset=dict(type='ttl_mm.ImageFolder', data_root={str(images)!r}, pipeline={pipeline}),
)
optimizer = dict(type='SGD', lr=0.05, momentum=0.9)
optim_wrapper = dict(type='OptimWrapper', optimizer=optimizer, accumulative_counts={accumulation})
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=6, by_epoch=False),
    dict(type='CosineAnnealingLR', T_max=4, end=4, by_epoch=True),
]
train_cfg = {loop}
default_hooks = dict(logger=dict(interval=1), curve=dict(type='CurveHook'), checkpoint={checkpoint})
env_cfg = dict(mp_cfg=dict(opencv_num_threads=0), dist_cfg=dict(backend='gloo', timeout={timeout}))
log_level = 'WARNING'
randomness = dict(seed=3)
visualizer = dict(type='Visualizer', vis_backends=[])
{more}
""")
    return path


def start(config: Path, work_dir: Path, ranks: int = 1, prepare=None, **options) -> list[int]:
    """Fork processes that call ``prepare`` and do ``tools/train.py CONFIG --resume``; their ids."""
    port = free_port()
    job = partial(_train, config, work_dir, ranks, port, prepare, options)
    return [fork(partial(job, rank)) for rank in range(ranks)]


def _train(config, work_dir, ranks, port, prepare, options, rank) -> int:
    warnings.simplefilter('default')  # a run like any user's; pytest makes errors of them
    forget_loggers()
    forget_scope()
    sys.stdout = sys.stderr = open(log_file(work_dir, rank), 'a', buffering=1)  # noqa: SIM115
    os.dup2(sys.stdout.fileno(), 1)
    os.dup2(sys.stdout.fileno(), 2)
    if ranks > 1:
        place = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=ranks, MASTER_PORT=port)
        os.environ.update({name: str(value) for name, value in place.items()})
        os.environ['MASTER_ADDR'] = '127.0.0.1'
        options['launcher'] = 'pytorch'
    if prepare is not None:
        prepare()
    options.setdefault('resume', 'auto')
    options.setdefault('plain', True)  # tests read the whole log from the console
    return exit_code(lambda: train(str(config), work_dir=str(work_dir), **options))


def wait_for_steps(work_dir: Path, ranks: int = 2, seconds: float = 60, alive=lambda: True) -> None:
    """Return when every rank has made four steps; fail if the run ends or takes too long."""
    deadline = time.monotonic() + seconds
    files = [work_dir / f'curve_{rank}.txt' for rank in range(ranks)]
    while not all(f.exists() and len(f.read_text().splitlines()) > 3 for f in files):
        assert alive(), 'the run has ended'
        assert time.monotonic() < deadline, f'no training within {seconds} s'
        time.sleep(0.05)


def run(config: Path, work_dir: Path, ranks: int = 1, prepare=None, **options) -> list[int]:
    """Train until it ends; the exit codes."""
    return wait(start(config, work_dir, ranks, prepare, **options))


def log_file(work_dir: Path, rank: int = 0) -> Path:
    """What a process printed."""
    return work_dir.with_name(f'{work_dir.name}_{rank}.log')


def curve(work_dir: Path, rank: int = 0) -> dict[int, str]:
    """The loss of every iteration as hex; a repeated iteration must have the same one."""
    losses: dict[int, str] = {}
    for line in (work_dir / f'curve_{rank}.txt').read_text().splitlines():
        iteration, loss = line.split()
        assert losses.setdefault(int(iteration), loss) == loss, f'iteration {iteration} differs'
    return losses


def images_by_epoch(work_dir: Path) -> dict[int, list[str]]:
    """The images of every epoch, of all ranks and all starts, as :class:`ImagesHook` saw them."""
    seen: dict[int, list[str]] = {}
    for path in sorted(work_dir.glob('images_?.txt')):
        for line in path.read_text().splitlines():
            epoch, name = line.split()
            seen.setdefault(int(epoch), []).append(name)
    return seen


def final_state(work_dir: Path) -> dict[str, torch.Tensor]:
    """The weights of the newest checkpoint."""
    path, _ = newest_valid(work_dir)
    return read_sealed(path)['state_dict']


def assert_same_run(work_dir: Path, reference: Path, ranks: int = 1) -> None:
    """Both runs had the same losses and end with the same weights, to the last bit."""
    for rank in range(ranks):
        assert curve(work_dir, rank) == curve(reference, rank)
    assert_bit_equal(final_state(work_dir), final_state(reference))


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        return sock.getsockname()[1]
