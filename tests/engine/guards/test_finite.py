"""NaN and infinity never reach the weights, and never a checkpoint."""

from types import SimpleNamespace

import pytest
import torch
from mmengine.hooks import Hook, RuntimeInfoHook
from mmengine.logging import MessageHub
from mmengine.registry import HOOKS
from torch.utils._python_dispatch import TorchDispatchMode

from tests.helpers.toy_run import curve, final_state, log_file, run, write_config
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.engine.guards.finite import FiniteHook, all_finite
from ttl_mm.engine.hooks.checkpoint_hook import check_finite
from ttl_mm.engine.state.exit_codes import STOPPED, TrainingStopped

POISON = "custom_hooks = [dict(type='PoisonHook', at=8, where={where!r})]\n"
SKIP_ONE = 'default_hooks.update(finite=dict(max_skips=1))\n'


@HOOKS.register_module(force=True)
class PoisonHook(Hook):
    """Put a NaN into one iteration."""

    def __init__(self, at: int, where: str) -> None:
        self.at, self.where = at, where

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        if runner.iter + 1 != self.at:
            return
        parts = {'loss': runner.model.neck, 'activations': runner.model.backbone[1]}
        if part := parts.get(self.where):
            self.handle = part.register_forward_hook(lambda m, x, y: y * torch.nan)
        else:
            self.handle = runner.model.neck.weight.register_hook(lambda grad: grad * torch.inf)

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == self.at:
            self.handle.remove()


PLACES = pytest.mark.parametrize('where', ['loss', 'activations', 'gradient'])


def train(tmp_path, images, code, more):
    """Train without and with accumulation; the work dirs, whose weights are finite."""
    for accumulation in (1, 3):
        work = tmp_path / f'accumulation_{accumulation}'
        config = write_config(tmp_path / 'config.py', images, accumulation=accumulation, more=more)
        assert run(config, work) == [code]
        assert all(value.isfinite().all() for value in final_state(work).values())
        yield work


@PLACES
def test_stops_and_keeps_the_good_checkpoint(tmp_path, images, where):
    for work in train(tmp_path, images, STOPPED, POISON.format(where=where)):
        assert 'at iteration' in log_file(work).read_text()
        assert max(curve(work)) <= 9  # at once, or with the optimizer step of that iteration
        (path, seal), *others = sealed_files(work)
        assert (path.name, seal.iteration, others) == ('epoch_1.pth', 5, [])


@PLACES
def test_skips_a_few_and_trains_on(tmp_path, images, where):
    """A bad loss and the step that is voided for it, an iteration later, are one skip."""
    for work in train(tmp_path, images, 0, SKIP_ONE + POISON.format(where=where)):
        losses = {i: float.fromhex(loss) for i, loss in curve(work).items()}
        bad = [i for i, loss in losses.items() if loss != loss]
        assert bad == ([] if where == 'gradient' else [8])
        assert 'skipped (1 of 1)' in log_file(work).read_text()


def test_a_state_that_is_not_finite_is_never_saved():
    good = {'state_dict': {'a': torch.ones(2)}, 'optimizer': {'state': {0: {'m': torch.ones(2)}}}}
    check_finite(good)
    bad = {**good, 'meta': {'iter': 3}}
    bad['optimizer'] = {'state': {0: {'m': torch.tensor([1, torch.inf])}}}
    with pytest.raises(TrainingStopped, match=r'optimizer\.state\.0\.m is not finite'):
        check_finite(bad)


def test_one_bad_value_among_many_is_seen():
    tensors = [torch.zeros(3, 4), torch.ones(1000)]
    assert all_finite(tensors)
    assert all_finite([])
    for value in (torch.nan, torch.inf, -torch.inf):
        tensors[1][777] = value
        assert not all_finite(tensors)


class Waits(TorchDispatchMode):
    """Counts the values that are brought from the device to the host."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_one_wait_for_the_device_per_step_and_the_loss_comes_from_the_log():
    hub, model = MessageHub('finite'), torch.nn.Linear(1, 1)
    wrapper = SimpleNamespace(optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    runner = SimpleNamespace(
        hooks=[RuntimeInfoHook()], optim_wrapper=wrapper, model=model, message_hub=hub, iter=4
    )
    hook = FiniteHook()
    hook.before_train(runner)
    on_device = object()  # a number that cannot be read
    hub.update_scalar('train/loss', 1.0)
    model(torch.ones(2, 1)).sum().backward()
    with Waits() as waits:
        wrapper.optimizer.step()
        hook.after_train_iter(runner, 4, outputs={'loss': on_device})
    assert waits.count == 1
    hub.update_scalar('train/loss', torch.nan)
    with pytest.raises(TrainingStopped, match='loss nan at iteration 5'):
        hook.after_train_iter(runner, 4, outputs={'loss': on_device})
    hook.after_train(runner)
