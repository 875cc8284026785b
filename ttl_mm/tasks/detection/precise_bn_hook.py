"""Batch-norm statistics that belong to the final weights, as detectron2's PRECISE_BN."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain, islice, repeat
from typing import Any

import torch
from mmengine.dist import all_reduce
from mmengine.hooks import Hook

from ttl_mm.compat.torch_private import BatchNorm
from ttl_mm.datasets.train_samples import Batch
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class PreciseBNHook(Hook):
    """Compute running mean and variance again at the end of training.

    The running averages lag behind the weights. After the last iteration, and before the last
    checkpoint and validation, this hook replaces them by plain averages over ``iterations``
    training batches. The model runs in training mode, losses included, so that the heads of a
    detector see sampled regions as in training, not the proposals of testing.

    Args:
        iterations: Number of batches.
    """

    priority = 'ABOVE_NORMAL'  # before the checkpoint hook

    def __init__(self, iterations: int = 200) -> None:
        if iterations < 1:
            raise ValueError(f'iterations={iterations}: at least one batch is needed')
        self.iterations = iterations

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        """Act once, after the last iteration of the run."""
        if runner.iter + 1 != runner.max_iters:
            return
        model = unwrap_model(runner.model)
        runner.logger.info(f'Precise BN: statistics of {self.iterations} training batches')
        endless = chain.from_iterable(repeat(runner.train_dataloader))
        with runner.optim_wrapper.optim_context(model):
            measure_bn(model, islice(endless, self.iterations))


@torch.no_grad()
def measure_bn(model: Any, batches: Iterable) -> None:
    """Set the running statistics of every layer in training mode to their mean over ``batches``.

    Layers in evaluation mode (frozen ones) keep theirs. Ranks of a distributed run are averaged.
    """
    norms = (m for m in model.modules() if isinstance(m, BatchNorm) and m.training)
    layers = [m for m in norms if m.track_running_stats]
    with _cumulative(layers):
        for batch in batches:
            data = batch.data if isinstance(batch, Batch) else batch  # of our loaders
            model(**model.data_preprocessor(data, training=True), mode='loss')
    for layer in layers:
        all_reduce(layer.running_mean, op='mean')
        all_reduce(layer.running_var, op='mean')


@contextmanager
def _cumulative(layers: list[BatchNorm]) -> Iterator[None]:
    """Let the layers average from zero with equal weights: momentum None in torch."""
    kept = [(layer, layer.momentum, deepcopy(layer.num_batches_tracked)) for layer in layers]
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    try:
        yield
    finally:
        for layer, momentum, tracked in kept:
            layer.momentum, layer.num_batches_tracked = momentum, tracked
