"""Features are judged without labels, on the same views each time, and training does not notice."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from mmengine.logging import MessageHub

from tests.helpers.digits_run import logged, train_digits
from ttl_mm.checkpoint.sealed import read_seal
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.engine import JudgeHook
from ttl_mm.engine.hooks import judge_hook
from ttl_mm.engine.hooks.judge_hook import is_due, judgments
from ttl_mm.engine.state.measured import curve_of
from ttl_mm.errors import UserError
from ttl_mm.evaluation.view_features import FIRST_DRAW
from ttl_mm.gauges import judge_views

MEASURE = 'judge/view_invariance'
JUDGE = {'type': 'ttl_mm.JudgeHook', 'share': 0.9, 'draws': 2}
BEST = {'type': 'ttl_mm.CheckpointHook', 'save_last': False, 'save_best': MEASURE}


def train(work_dir, **hooks):
    """Three epochs of three iterations on 192 images."""
    loop = {'by_epoch': True, 'max_epochs': 3}
    runner = train_digits(work_dir, images=192, batch_size=64, loop=loop, **hooks)
    return runner, logged(work_dir, 'judge/rankme') if hooks else []


@pytest.fixture(scope='module')
def judged(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:  # no judgment is left out, however slow it is
        patch.setattr(judge_hook, 'time', SimpleNamespace(perf_counter=lambda: 0.0))
        return train(tmp_path_factory.mktemp('judged'), judge=JUDGE, checkpoint=BEST)


def test_training_is_bit_equal_with_and_without(judged, tmp_path):
    expected, found = (run.model.state_dict() for run in (train(tmp_path)[0], judged[0]))
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []


def test_judged_at_even_distances_on_features_of_an_own_forward_pass(judged):
    runner, lines = judged
    times, images = judgments(9 * 64, 2, 192, 0.9)
    due = [step for step in range(1, 10) if is_due(step, 9, times)]
    assert len(due) == times
    assert [line['iter'] for line in lines] == [0, *due]
    model, samples = runner.model, runner.train_dataloader.dataset
    model.eval()
    rows = []
    for i in range(images):
        index = i * 192 // images
        drawn = [samples[SampleIndex(index, FIRST_DRAW + draw, runner.seed)] for draw in range(2)]
        views = [(v.float() - 78) / 96 for sample in drawn for v in sample['inputs']]
        with torch.no_grad():
            maps = [model.backbone(v[None])[-1].mean((2, 3))[0] for v in views]
        rows.append(torch.stack(maps))
    expected = judge_views(torch.stack(rows))
    for name, value in expected.items():
        assert lines[-1][f'judge/{name}'] == pytest.approx(value, rel=0.02), name
    assert 'judge/stability' not in lines[0]
    assert 0 < lines[-1]['judge/stability'] <= 1


def test_the_best_checkpoint_without_labels_is_kept(judged):
    runner, lines = judged
    curve = [(line['iter'], line[MEASURE]) for line in lines]
    assert curve_of(runner, MEASURE) == curve  # what the verdict and the forecast go by
    (best,) = Path(runner.work_dir).glob('best_*.pth')
    assert read_seal(best).iteration == max(curve[1:], key=lambda point: point[1])[0]


def test_judging_keeps_to_its_share_of_the_clock(monkeypatch):
    """1000 steps of a second; work alone would allow five judgments."""
    clock = [0.0]
    monkeypatch.setattr(judge_hook, 'time', SimpleNamespace(perf_counter=lambda: clock[0]))
    for cost, steps in ((1, [0, 250, 500, 750, 1000]), (2, [0, 500, 750, 1000]), (6, [0])):
        clock[0] = 0.0

        def features(*args, cost=cost):
            clock[0] += cost
            return torch.randn(128, 4, 8)

        monkeypatch.setattr(judge_hook, 'view_features', features)
        runner = MagicMock(max_iters=1000, world_size=1, iter=0, seed=0)
        runner.train_dataloader = MagicMock(dataset=range(10_000))
        runner.train_dataloader.batch_sampler.batch_size = 64
        runner.train_loop.ranks.ranks = 1
        runner.train_dataloader.__len__.return_value = 100
        runner.message_hub = MessageHub(f'judge_{cost}')
        hook = JudgeHook()
        hook.before_train(runner)
        for runner.iter in range(1000):
            clock[0] += 1
            if runner.iter == 600:  # a resumed run remembers what it has spent
                state, hook = hook.state_dict(), JudgeHook()
                hook.load_state_dict(state)
                hook.before_train(runner)
            hook.after_train_iter(runner, 0)
        assert [step for step, _ in curve_of(runner, MEASURE)] == steps
        assert hook.spent == cost * len(steps) <= 0.01 * clock[0]


def test_the_cost_stays_within_the_share():
    for views in np.geomspace(10, 1e9, 40).astype(int):
        for images in (50, 10_000):
            times, count = judgments(int(views), draws=2, images=images, share=0.01)
            assert (times + 1) * count * 2 * 0.5 <= 0.01 * views or times == count == 0
    assert judgments(5_000_000, 2, 1_000_000, 0.01) == (50, 980)
    assert judgments(1_000, 2, 10_000, 0.01) == (0, 0)


def test_impossible_settings_are_refused():
    for name, value in {'share': 1.0, 'draws': 0, 'neighbors': 0}.items():
        with pytest.raises(UserError, match=f'{name}={value}'):
            JudgeHook(**{name: value})
