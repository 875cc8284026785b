"""Faults that a machine or a set-up can have, for the self-test to find."""

import time

import numpy as np
import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS, TRANSFORMS

from ttl_mm.engine.state.model import unwrap_model


@HOOKS.register_module(force=True)
class UnseededHook(Hook):
    """Weights get noise of each process's own, which no checkpoint and no other rank knows."""

    def before_train(self, runner) -> None:
        self.generator = torch.Generator()
        self.generator.seed()

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        with torch.no_grad():
            for weight in unwrap_model(runner.model).parameters():
                weight += 0.01 * torch.randn(weight.shape, generator=self.generator)


@HOOKS.register_module(force=True)
class HoarderHook(Hook):
    """Every checkpoint holds ten million bytes that nobody needs, and one rank 640 million."""

    def before_train(self, runner) -> None:
        if runner.rank == 0:
            self.hoard = np.ones(80_000_000)

    def before_save_checkpoint(self, runner, checkpoint) -> None:
        checkpoint['hoard'] = torch.ones(10_000_000, dtype=torch.uint8)


@TRANSFORMS.register_module(force=True)
class SlowDisk(torch.nn.Module):
    """Every image takes long to arrive."""

    def forward(self, results):
        time.sleep(0.02)
        return results
