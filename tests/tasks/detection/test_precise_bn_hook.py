"""Precise BN against statistics computed batch by batch."""

from types import SimpleNamespace

import pytest
import torch
from mmengine.model import BaseDataPreprocessor, BaseModel
from mmengine.optim import OptimWrapper
from mmengine.runner import get_priority
from torch import nn

from ttl_mm.datasets.train_samples import Batch
from ttl_mm.engine.hooks.checkpoint_hook import CheckpointHook
from ttl_mm.tasks.detection.precise_bn_hook import PreciseBNHook, measure_bn


class Detector(BaseModel):
    """Two norms, of which one is frozen; notes in which mode it runs."""

    def __init__(self) -> None:
        super().__init__(BaseDataPreprocessor())
        self.norm = nn.BatchNorm2d(3, momentum=0.1)
        self.frozen = nn.BatchNorm2d(3)
        self.modes = []

    def train(self, mode: bool = True):
        super().train(mode)
        self.frozen.eval()
        return self

    def forward(self, inputs, mode: str = 'tensor') -> dict:
        self.modes.append((mode, self.training, torch.is_grad_enabled()))
        return dict(loss=self.frozen(self.norm(torch.stack(inputs))).mean())


def batches(n: int) -> list[dict]:
    generator = torch.Generator().manual_seed(0)
    return [
        dict(inputs=[torch.randn(3, 4, 5, generator=generator) + i for _ in range(2)])
        for i in range(n)
    ]


def assert_statistics(norm: nn.Module, data: list[dict]) -> None:
    """Mean over the batches of their means and unbiased variances, by plain arithmetic."""
    stacked = [torch.stack(batch['inputs']).transpose(0, 1).flatten(1).double() for batch in data]
    means = torch.stack([x.mean(1) for x in stacked]).mean(0)
    variances = torch.stack([x.var(1) for x in stacked]).mean(0)
    for found, wanted in ((norm.running_mean, means), (norm.running_var, variances)):
        torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-5)


def test_statistics_are_plain_means_over_the_batches() -> None:
    """As in training, but without gradients; a frozen layer keeps its own."""
    model, data = Detector().train(), batches(5)
    model.norm.running_mean.fill_(77)
    model.norm.num_batches_tracked.fill_(900)
    measure_bn(model, data)
    assert_statistics(model.norm, data)
    assert (model.norm.momentum, model.norm.num_batches_tracked) == (0.1, 900)
    assert (model.frozen.running_mean == 0).all()
    assert model.frozen.num_batches_tracked == 0
    assert model.modes == [('loss', True, False)] * 5


def finish(hook: PreciseBNHook, loader, iteration: int = 9) -> Detector:
    """A model after an iteration of ten, counted from 0."""
    model = Detector().train()
    optimizer = OptimWrapper(torch.optim.SGD(model.parameters(), 0.1))
    runner = SimpleNamespace(
        model=model, train_dataloader=loader, iter=iteration, max_iters=10,
        optim_wrapper=optimizer, logger=SimpleNamespace(info=print),
    )  # fmt: skip
    hook.after_train_iter(runner, iteration)
    return model


def test_acts_after_the_last_iteration_alone() -> None:
    """Also with a loader that is shorter than the number of batches asked for."""
    for iteration, passes in ((0, 0), (8, 0), (9, 7)):
        assert len(finish(PreciseBNHook(7), batches(3), iteration).modes) == passes
    with pytest.raises(ValueError, match='iterations=0'):
        PreciseBNHook(iterations=0)


def test_batches_of_our_loader_are_unwrapped() -> None:
    data = batches(3)
    model = finish(PreciseBNHook(3), [Batch(data=batch, skipped=[]) for batch in data])
    assert_statistics(model.norm, data)


def test_a_failing_batch_leaves_the_momentum() -> None:
    model = Detector().train()
    with pytest.raises(TypeError):
        measure_bn(model, [*batches(1), {}])
    assert model.norm.momentum == 0.1


def test_precise_statistics_are_in_the_last_checkpoint() -> None:
    """The hook comes before the checkpoint hook in every stage."""
    assert get_priority(PreciseBNHook.priority) < get_priority(CheckpointHook.priority)
