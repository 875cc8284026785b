"""The target moves once per optimizer step, after it, by a momentum that follows its schedule."""

from copy import deepcopy
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import nn

from tests.helpers.two_processes import in_two_processes
from ttl_mm.engine import TargetUpdateHook
from ttl_mm.engine.hooks.target_update_hook import cosine_momentum
from ttl_mm.errors import UserError
from ttl_mm.models import TruncatedTripletHead, TTLAlgorithm
from ttl_mm.models.algorithm import ADD_THE_HOOK

LR, IMAGES, BATCH = 0.5, 24, 6
HOOK = dict(type='ttl_mm.TargetUpdateHook', horizon_epochs=10)


class Part(nn.Module):
    """A layer without batch statistics, with the tuples of mmpretrain."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, x):
        x = x[0] if isinstance(x, tuple) else x
        return (self.fc(x.flatten(1)),)


VIEWS = torch.randn(2, IMAGES, 3, 2, 2, generator=torch.Generator().manual_seed(0))
DATA = [{'inputs': list(pair), 'data_samples': 0} for pair in VIEWS.transpose(0, 1)]


class Watch(Hook):
    """The target after every iteration, the logged momentum, and the progress of the model."""

    priority = 'LOWEST'

    def __init__(self):
        self.targets, self.momenta, self.sizes = [], [], []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        model = runner.model
        self.targets.append(model.target_neck.fc.weight.detach().clone())
        self.momenta.append(runner.message_hub.get_scalar('train/momentum').current())
        self.sizes.append((model.seed, model.iteration))


def build_model():
    torch.manual_seed(0)
    head = TruncatedTripletHead(Part(5, 5), deputy=(1, 3))
    return TTLAlgorithm(Part(12, 8), Part(8, 5), head, online_sizes=None, target_sizes=None)


def run(folder, model, accumulation=1, hook=HOOK, **loop):
    """Train, for one epoch by default; what was watched."""
    watch = Watch()
    runner = Runner(
        model=model,
        work_dir=str(folder),
        train_dataloader=dict(
            batch_size=BATCH, num_workers=0, dataset=DATA,
            sampler=dict(type='DefaultSampler', shuffle=False),
            collate_fn=dict(type='default_collate'),
        ),
        train_cfg=loop or dict(by_epoch=True, max_epochs=1),
        optim_wrapper=dict(
            accumulative_counts=accumulation, optimizer=dict(type='SGD', lr=LR, momentum=0.9)
        ),
        default_hooks=dict(checkpoint=None, logger=None),
        custom_hooks=[hook, watch] if hook else [],
        randomness=dict(seed=11),
        experiment_name=f'run_{id(watch)}',
        default_scope='mmpretrain',
        log_level='ERROR',
    )  # fmt: skip
    runner.train()
    return watch


def test_step_under_accumulation_is_one_on_the_mean_of_the_losses(tmp_path):
    model = build_model()
    alone = deepcopy(model)
    start = model.neck.fc.weight.detach().clone()
    watch = run(tmp_path, model, accumulation=4)

    for iteration, batch in enumerate(VIEWS.split(BATCH, dim=1)):
        alone.set_progress(seed=11, iteration=iteration)
        (alone.loss(list(batch))['loss'] / 4).backward()
    for (name, stepped), parameter in zip(model.named_parameters(), alone.parameters()):
        if parameter.requires_grad:
            expected = parameter.detach() - LR * parameter.grad
            torch.testing.assert_close(stepped.detach(), expected, rtol=1e-6, atol=1e-6, msg=name)

    # three times nothing, then toward the network after its step
    for target in watch.targets[:3]:
        assert torch.equal(target, start)
    momentum = cosine_momentum(3, 40, 0.99)
    expected = momentum * start + (1 - momentum) * model.neck.fc.weight.detach()
    torch.testing.assert_close(watch.targets[3], expected, rtol=1e-6, atol=1e-7)
    assert not torch.equal(watch.targets[3], start)


def test_remainder_of_the_accumulation_moves_it_too(tmp_path):
    """Eight iterations in steps of three: mmengine steps at the last one as well."""
    watch = run(tmp_path, build_model(), accumulation=3, by_epoch=True, max_epochs=2)
    moved = [i for i in range(1, 8) if not torch.equal(watch.targets[i], watch.targets[i - 1])]
    assert moved == [2, 5, 7]


def test_momentum_is_logged_and_the_model_knows_its_iteration(tmp_path):
    for loop, horizon, iterations in (
        (dict(by_epoch=True, max_epochs=2), dict(horizon_epochs=2), 8),
        (dict(by_epoch=False, max_iters=10), dict(horizon_iters=8), 10),
    ):
        hook = dict(type='ttl_mm.TargetUpdateHook', **horizon)
        watch = run(tmp_path, build_model(), hook=hook, **loop)
        assert watch.momenta == [cosine_momentum(i, 8, 0.99) for i in range(iterations)]
        assert watch.sizes == [(11, i) for i in range(iterations)]
    assert watch.momenta[-1] == 1


def test_target_starts_in_step_with_weights_that_came_late_and_is_left_alone_on_resume(tmp_path):
    """Late are those of ``load_from``, which mmengine loads after the initialization."""
    model = build_model()
    nn.init.constant_(model.neck.fc.weight, 3.0)
    watch = run(tmp_path, model, accumulation=4)
    assert (watch.targets[0] == 3).all()
    nn.init.constant_(model.target_neck.fc.weight, 5.0)
    TargetUpdateHook(horizon_epochs=10).before_train(fake_runner(model, iteration=5))
    assert (model.target_neck.fc.weight == 5).all()


def test_without_the_hook_mmengines_runner_stops_and_says_the_line_that_helps(
    tmp_path,
):
    model, views = build_model(), []
    model.backbone.register_forward_hook(lambda *_: views.append(1))
    with pytest.raises(UserError, match='horizon_epochs=200'):
        run(tmp_path, model, hook=None)
    assert len(views) == 2  # of one iteration: it stops at the second
    line = ADD_THE_HOOK.splitlines()[-1]
    hook = Config.fromstring(line, '.py').default_hooks.target_update
    targets = run(tmp_path, build_model(), hook=hook).targets
    assert [not torch.equal(*pair) for pair in pairwise(targets)] == [True] * 3


def test_a_model_without_a_target_is_refused():
    sizes = dict(online_sizes=None, target_sizes=None)
    head = TruncatedTripletHead(None, deputy=(1, 3), gamma=1.0)
    model = TTLAlgorithm(Part(12, 8), Part(8, 5), head, target_momentum=None, **sizes)
    with pytest.raises(UserError, match='no target network'):
        TargetUpdateHook(horizon_epochs=1).before_train(fake_runner(model, iteration=0))
    with pytest.raises(UserError, match='the model is a Linear'):
        TargetUpdateHook(horizon_epochs=1).before_train(fake_runner(nn.Linear(2, 2), iteration=0))


def fake_runner(model, iteration):
    return SimpleNamespace(model=model, iter=iteration, seed=1, train_dataloader=range(10))


def test_momentum_of_the_schedule():
    """End points and middle, of the paper's 200 epochs of 1540 iterations."""
    horizon = 308_000
    for iteration, expected in {0: 0.99, 4: 0.99, 154_000: 0.995, 307_999: 1.0}.items():
        assert cosine_momentum(iteration, horizon, 0.99) == pytest.approx(expected)
    for iteration in (horizon, 2 * horizon):  # no way back
        assert cosine_momentum(iteration, horizon, 0.99) == 1.0


def test_invalid_settings_are_refused():
    for epochs, iterations in ((None, None), (0, None), (5, 5)):
        found = f'horizon_epochs={epochs}, horizon_iters={iterations}'
        with pytest.raises(UserError, match=found):
            TargetUpdateHook(epochs, iterations)


def seed_of(rank):
    hook, runner = TargetUpdateHook(horizon_epochs=10), fake_runner(build_model(), iteration=0)
    runner.seed = 7 + rank  # as with diff_rank_seed
    hook.before_train(runner)
    hook.before_train_iter(runner, 0)
    return runner.model.seed


def test_processes_agree_on_the_sizes(tmp_path):
    assert in_two_processes(tmp_path, seed_of) == [7, 7]
