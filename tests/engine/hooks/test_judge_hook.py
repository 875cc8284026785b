"""Features are judged without labels, on the same views each time, and training does not notice."""

import numpy as np
import pytest
import torch

from tests.helpers.digits_run import logged, train_digits
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.engine import JudgeHook
from ttl_mm.engine.hooks.judge_hook import judgments
from ttl_mm.errors import UserError
from ttl_mm.evaluation.view_features import FIRST_DRAW
from ttl_mm.gauges import judge_views

JUDGE = {'type': 'ttl_mm.JudgeHook', 'share': 0.9, 'draws': 2}


def train(work_dir, **hooks):
    """Three epochs of three iterations on 192 images."""
    loop = {'by_epoch': True, 'max_epochs': 3}
    runner = train_digits(work_dir, images=192, batch_size=64, loop=loop, **hooks)
    return runner, logged(work_dir, 'judge/rankme') if hooks else []


@pytest.fixture(scope='module')
def judged(tmp_path_factory):
    return train(tmp_path_factory.mktemp('judged'), judge=JUDGE)


def test_training_is_bit_equal_with_and_without(judged, tmp_path):
    expected, found = (run.model.state_dict() for run in (train(tmp_path)[0], judged[0]))
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []


def test_judged_at_even_distances_on_features_of_an_own_forward_pass(judged):
    runner, lines = judged
    times, images = judgments(9 * 64, 2, 192, 0.9)
    assert [line['iter'] for line in lines] == [9 * i // times for i in range(times + 1)]
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
