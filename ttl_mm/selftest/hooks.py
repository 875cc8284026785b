"""Hooks of the self-test: one measures a run, the others disturb it on purpose."""

import hashlib
import json
import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from mmengine.hooks import Hook
from torch import Tensor

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.registry import HOOKS
from ttl_mm.selftest.memory import peak_memory, reset_peak

WARM_UP = 3  # iterations that are not timed: workers start, kernels are chosen


def digest(tensors: Iterable[Tensor]) -> str:
    """A hash of the values of tensors."""
    sha256 = hashlib.sha256()
    for tensor in tensors:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        sha256.update(flat.view(torch.uint8).numpy().tobytes())
    return sha256.hexdigest()


def total_bytes(value: Any) -> int:
    """Bytes of all tensors in nested dicts and lists."""
    if isinstance(value, Tensor):
        return value.nbytes
    values = value.values() if isinstance(value, dict) else value
    return sum(map(total_bytes, values)) if isinstance(value, (dict, list, tuple)) else 0


@HOOKS.register_module()
class MeasureHook(Hook):
    """Write what a run was like into ``folder/RANK.json`` at its end.

    Args:
        folder: Where to write.
        every_step: Whether to look at weights and loss scale after every iteration, which takes
            time.
    """

    priority = 'LOWEST'

    def __init__(self, folder: str, every_step: bool = False) -> None:
        self.folder = Path(folder)
        self.every_step = every_step
        self.scales: list[float] = []
        self.digests: list[str] = []

    def before_train(self, runner) -> None:
        reset_peak()
        self.trained = [p for p in runner.model.parameters() if p.requires_grad]
        if self.every_step:
            self.digests.append(digest(self.trained))

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        if self.every_step:
            self.digests.append(digest(self.trained))
            self.scales.append(runner.optim_wrapper.loss_scaler.get_scale())

    def after_train(self, runner) -> None:
        model, logged = unwrap_model(runner.model), runner.message_hub.log_scalars
        targets = [p for p in model.parameters() if not p.requires_grad]
        steady = {
            name: logged[f'train/{name}'].data[0][WARM_UP:]
            for name in ('time', 'data_time', 'images_per_s')
        }
        result = {
            'online': digest(self.trained),
            'target': digest(targets) if targets else None,
            'images_per_s': float(steady['images_per_s'].mean()),
            'data_wait': float(steady['data_time'].sum() / steady['time'].sum()),
            'peak_memory': peak_memory(),
            'scales': self.scales,
            'moved': [a != b for a, b in zip(self.digests, self.digests[1:])],
            'bytes': {
                'model': total_bytes(model.state_dict()),
                'optimizer': total_bytes(runner.optim_wrapper.optimizer.state_dict()['state']),
                'gradient': total_bytes(self.trained),
                'buffers': total_bytes(dict(model.named_buffers())),
            },
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f'{runner.rank}.json').write_text(json.dumps(result))


@HOOKS.register_module()
class InfinityHook(Hook):
    """Make one gradient infinite in iteration ``at``, on one rank."""

    def __init__(self, at: int) -> None:
        self.at = at

    def before_train_iter(self, runner, batch_idx: int, data_batch=None) -> None:
        if runner.iter + 1 == self.at and runner.rank == 0:
            weight = next(p for p in runner.model.parameters() if p.requires_grad)
            self._handle = weight.register_hook(lambda gradient: gradient + float('inf'))

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == self.at and runner.rank == 0:
            self._handle.remove()


@HOOKS.register_module()
class InterruptHook(Hook):
    """Ask the run to end after iteration ``at``, as a scheduler does: by SIGTERM to one rank."""

    def __init__(self, at: int) -> None:
        self.at = at

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == self.at and runner.rank == 0:
            os.kill(os.getpid(), signal.SIGTERM)
