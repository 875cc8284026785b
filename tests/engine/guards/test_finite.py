"""NaN and infinity never reach the weights, and never a checkpoint."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.hooks import Hook, RuntimeInfoHook
from mmengine.logging import MessageHub
from mmengine.registry import HOOKS
from torch.utils._python_dispatch import TorchDispatchMode

from tests.helpers.toy_run import ITERATIONS, curve, final_state, log_file, run, write_config
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.engine.guards.finite import FiniteHook, all_finite
from ttl_mm.engine.hooks.checkpoint_hook import check_finite
from ttl_mm.engine.state.exit_codes import STOPPED, TrainingStopped
from ttl_mm.engine.state.model import unwrap_model

POISON = "custom_hooks = [dict(type='PoisonHook', at=8, where={where!r})]\n"
SKIP_ONE = 'default_hooks.update(finite=dict(max_skips=1))\n'


@HOOKS.register_module(force=True)
class PoisonHook(Hook):
    """Put a NaN into one iteration, or all from it on, of one rank."""

    def __init__(self, at: int, where: str, for_ever: bool = False, rank: int = 0) -> None:
        self.first, self.last = at, 10**9 if for_ever else at
        self.where, self.rank, self.handle = where, rank, None

    def before_train_iter(self, runner, batch_idx, data_batch=None) -> None:
        if not self.first <= runner.iter + 1 <= self.last or runner.rank != self.rank:
            return
        model = unwrap_model(runner.model)
        parts = {'loss': model.neck, 'activations': model.backbone[1]}
        if part := parts.get(self.where):
            self.handle = part.register_forward_hook(lambda m, x, y: y * torch.nan)
        else:
            self.handle = model.neck.weight.register_hook(lambda grad: grad * torch.inf)

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if self.handle is not None:
            self.handle.remove()


@HOOKS.register_module(force=True)
class GradientHook(Hook):
    """Keep the gradient of the neck after each of the two iterations before a step, and in it."""

    priority = 'LOWEST'

    def __init__(self, at: int) -> None:
        self.at, self.found = at, []

    def before_train(self, runner) -> None:
        optimizer = runner.optim_wrapper.optimizer
        optimizer.register_step_pre_hook(lambda *args: self.keep(runner))

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 in (self.at - 2, self.at - 1):
            self.keep(runner)

    def keep(self, runner) -> None:
        if runner.iter + 1 in range(self.at - 2, self.at + 1):
            self.found.append(runner.model.neck.weight.grad.clone())
            torch.save(self.found, Path(runner.work_dir) / 'gradients.pt')


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


def mixed(tmp_path, toy_config, code, **poison):
    """Train in float16; the log, and after every step the loss scale (a mean of ten) and skips."""
    arguments = ', '.join(f'{name}={value}' for name, value in poison.items())
    hook = f"custom_hooks = [dict(type='PoisonHook', where='gradient', {arguments})]\n"
    logged = "visualizer = dict(type='Visualizer', vis_backends=[dict(type='LocalVisBackend')])\n"
    scale = 'optim_wrapper.update(loss_scale=dict(init_scale=1024.0))\n'
    work = tmp_path / 'work'
    assert run(toy_config(ITERATIONS, more=hook + logged + scale), work, amp='fp16') == [code]
    (scalars,) = work.glob('*/vis_data/scalars.json')
    lines = [json.loads(line) for line in scalars.read_text().splitlines()]
    return log_file(work).read_text(), [(x['loss_scale'], x['skipped_steps']) for x in lines]


def test_mixed_precision_logs_a_skipped_step_and_goes_on(tmp_path, toy_config):
    log, scales = mixed(tmp_path, toy_config, 0, at=8)
    assert 'iteration 8: step skipped, loss scale 1024 -> 512 (1 in a row)' in log
    assert [skips for _, skips in scales] == [0] * 7 + [1] * 13
    assert (scales[6][0], scales[-1][0]) == (1024, 512)


def test_mixed_precision_stops_when_no_step_is_made_any_more(tmp_path, toy_config):
    log, scales = mixed(tmp_path, toy_config, STOPPED, at=3, for_ever=True)
    assert 'stopped: scaled gradient not finite at iteration 13' in log
    assert 'steps skipped in a row: 11, loss scale 1 -> 0.5. No scale helps' in log
    assert scales[-1][1] == 10


@pytest.mark.parametrize('images', [44], indirect=True)
def test_ranks_agree_on_a_bad_loss_inside_an_accumulation_and_count_it_once(tmp_path, toy):
    """Before the step, only one of them knows."""
    poison = "custom_hooks = [dict(type='PoisonHook', at=7, where='loss', rank=1)]\n"
    assert toy('stopped', 2, accumulation=3, more=poison) == [STOPPED, STOPPED]
    assert toy('skipped', 2, accumulation=3, more=SKIP_ONE + poison) == [0, 0]
    assert 'loss nan at iteration 7: skipped (1 of 1)' in log_file(tmp_path / 'skipped').read_text()


def test_a_bad_iteration_is_taken_out_of_the_accumulated_gradient(tmp_path, toy):
    kept = "custom_hooks = [dict(type='GradientHook', at=9)]\n"
    poisoned = kept.replace('[', "[dict(type='PoisonHook', at=8, where='loss'), ")
    found = {}
    for name, more in (('good', kept), ('poisoned', poisoned)):
        settings = dict(accumulation=3, more=SKIP_ONE + more, loop=ITERATIONS)
        assert toy(name, **settings) == [0]
        found[name] = torch.load(tmp_path / name / 'gradients.pt', weights_only=True)
    # after iteration 7, after 8, and in the step of 9; each iteration adds a third
    good, poisoned = found['good'], found['poisoned']
    assert torch.equal(poisoned[0], good[0])
    assert torch.equal(poisoned[1], poisoned[0])
    assert not torch.equal(good[1], good[0])
    assert poisoned[2].isfinite().all()
    assert not torch.equal(poisoned[2], poisoned[1])


def test_a_state_that_is_not_finite_is_never_saved():
    good = {
        'state_dict': {'a': torch.ones(2)},
        'optimizer': {'state': {0: {'m': torch.ones(2)}}},
        'ttl_mm': {'gradients': {'a': torch.ones(2)}},
        'meta': {'iter': 3},
    }
    check_finite(good)
    infinite = torch.tensor([1, torch.inf])
    in_optimizer = {**good, 'optimizer': {'state': {0: {'m': infinite}}}}
    with pytest.raises(TrainingStopped, match=r'optimizer\.state\.0\.m is not finite'):
        check_finite(in_optimizer)
    in_gradient = {**good, 'ttl_mm': {'gradients': {'a': infinite}}}
    with pytest.raises(TrainingStopped, match=r'gradients\.a is not finite'):
        check_finite(in_gradient)
    check_finite(
        {**in_gradient, 'optimizer': {'loss_scaler': {'scale': 1.0}}}
    )  # will make no step with it


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
    with pytest.raises(
        TrainingStopped, match=r'loss nan at iteration 5.*optim_wrapper\.optimizer\.lr=RATE'
    ):
        hook.after_train_iter(runner, 4, outputs={'loss': on_device})
    hook.after_train(runner)
