"""One run, and the time of an iteration."""

import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from mmengine.dataset import default_collate
from mmengine.hooks import Hook
from mmengine.logging import MessageHub
from mmengine.optim import build_optim_wrapper
from mmengine.registry import RUNNERS, init_default_scope
from mmengine.runner.utils import set_random_seed
from torch.utils.data import DataLoader

import projects.accuracy_per_hour.parts
import projects.accuracy_per_hour.trial  # noqa: F401
import ttl_mm.engine  # noqa: F401
from projects.accuracy_per_hour.build import config_of, dataset_of
from projects.accuracy_per_hour.plan import DATA, Job, Setting
from ttl_mm.datasets import EpochSampler
from ttl_mm.datasets.images_in_memory import ImagesInMemory, step_in_memory
from ttl_mm.datasets.train_loader import train_loader
from ttl_mm.engine.state.exit_codes import TrainingStopped
from ttl_mm.evaluation.probe import KNN, LINEAR, Probe
from ttl_mm.models import TTLAlgorithm
from ttl_mm.registry import DATASETS, MODELS


class Cost(Hook):
    """CPU seconds of the process, and pixels that enter a network, from the first iteration on."""

    priority = 'LOWEST'

    def __init__(self) -> None:
        self.seconds = 0.0
        self.pixels = 0
        self.losses: list[float] = []

    def before_train(self, runner) -> None:
        self._start = time.process_time()

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        inputs = data_batch['inputs']
        views = inputs if isinstance(inputs[0], torch.Tensor) and inputs[0].ndim == 4 else [inputs]
        self.pixels += sum(len(view) * view[0].shape[-1] * view[0].shape[-2] for view in views)
        self.losses.append(outputs['loss'].item())
        self.seconds = time.process_time() - self._start

    def after_train(self, runner) -> None:
        self.seconds = time.process_time() - self._start  # hooks of trials work at the end


def train_and_evaluate(job: Job, folder: Path, iterations: int, linear: bool) -> dict[str, Any]:
    """Do the run, evaluate its features, and return what was measured."""
    data = DATA[job.data]
    cfg = config_of(data, job.method, job.setting, folder, iterations, job.held_out, job.seed)
    cost = Cost()
    with tempfile.TemporaryDirectory() as work_dir:
        cfg.work_dir = work_dir
        cfg.runner_type = 'ttl_mm.Runner'
        runner = RUNNERS.build(cfg)
        runner.register_hook(cost)
        runner.model.to(memory_format=torch.channels_last)
        try:
            runner.train()
        except TrainingStopped as end:  # it diverged, which is a result as well
            return {'method': job.method, 'setting': dict(job.setting), 'failed': str(end)}
        plain = [dict(type='ttl_mm.LoadImage')]
        if data.size != 32:
            plain.append(dict(type='Resize', scale=(data.size, data.size), backend='pillow'))
        plain.append(dict(type='PackInputs'))
        parts = ('rest', 'held_out') if job.held_out else ('train', 'test')
        train, test = (dataset_of(data, folder, part, plain) for part in parts)
        probe = Probe(train, test, linear=linear)
        probe.build_datasets()
        scores = probe.measure(runner.model)
    tail = cost.losses[-20:]
    passes = 2 if getattr(runner.model, 'has_target', job.method in ('byol', 'mocov2')) else 1
    found = {
        'method': job.method, 'setting': dict(job.setting), 'budget': job.budget,
        'seed': job.seed, 'iterations': iterations,
        'epochs': round(iterations / len(runner.train_dataloader), 2),
        'cpu_seconds': round(cost.seconds, 1), 'pixels_forward': passes * cost.pixels,
        'loss': round(sum(tail) / len(tail), 4), 'knn': round(scores[KNN], 2),
    }  # fmt: skip
    if LINEAR in scores:
        found['linear'] = round(scores[LINEAR], 2)
    return found


def seconds_per_iteration(
    data_name: str, variants: list[tuple[str, Setting]], folder: Path, rounds: int, count: int
) -> list[list[float]]:
    """CPU seconds of an iteration of each variant in each round; all take turns in every round.

    The machine may be loaded: what is to be compared is measured side by side, and within a
    round each variant does ``count`` iterations on data, network and optimizer of its own.
    """
    init_default_scope('mmpretrain')
    MessageHub.get_current_instance().update_info('max_iters', 10_000)  # BYOL asks for it
    steps = [_stepper(data_name, method, setting, folder) for method, setting in variants]
    for step in steps:
        step(), step()  # the first passes allocate
    found: list[list[float]] = [[] for _ in steps]
    for _ in range(rounds):
        for times, step in zip(found, steps):
            start = time.process_time()
            for _ in range(count):
                step()
            times.append((time.process_time() - start) / count)
    return found


def seconds_to_read(data_name: str, folder: Path, count: int = 500) -> float:
    """CPU seconds in which an image is taken into memory."""
    init_default_scope('mmpretrain')
    setting = {'lr': 0.1, 'memory': True}
    cfg = config_of(DATA[data_name], 'fast', setting, folder, 100, held_out=False)
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    step = step_in_memory(dataset)
    assert step is not None
    memory = ImagesInMemory(dataset, step)
    count = min(count, len(dataset))
    start = time.process_time()
    for index in range(count):
        memory.take(index)
    return (time.process_time() - start) / count


def _stepper(data_name: str, method: str, setting: Setting, folder: Path):
    """A function that does the next training iteration of a method, data path included."""
    cfg = config_of(DATA[data_name], method, setting, folder, 10_000, held_out=False)
    set_random_seed(0)
    model = MODELS.build(cfg.model).to(memory_format=torch.channels_last)
    model.init_weights()
    optim = build_optim_wrapper(model, cfg.optim_wrapper)
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    size = cfg.train_dataloader.batch_size
    plain = DataLoader(
        dataset, size, sampler=EpochSampler(dataset, seed=0), drop_last=True,
        collate_fn=default_collate,
    )  # fmt: skip
    loader = train_loader(plain, seed=0)
    if setting.get('memory'):  # reading is counted by itself
        for index in range(len(dataset)):
            loader.dataset.memory.take(index)
    batches = _endless(loader)
    moves = isinstance(model, TTLAlgorithm) and model.has_target

    def step() -> None:
        if moves:
            model.set_progress(0, 0)
        model.train_step(next(batches).data, optim)
        if moves:
            model.update_target(0.99)

    return step


def _endless(loader):
    epoch = 0
    while True:
        loader.batch_sampler.set_position(epoch, 0)
        yield from loader
        epoch += 1
