"""The comparison by time: equal trials, a split without overlap, a real run, its tables."""

import json

import numpy as np
import pytest
import torch
from mmengine.registry import init_default_scope
from scipy import stats

from projects.accuracy_per_hour import measure, plan, race, tables
from projects.accuracy_per_hour.build import config_of, dataset_of
from projects.accuracy_per_hour.parts import DecoupledHead
from projects.accuracy_per_hour.plan import (
    CONTENDERS,
    DATA,
    FAST,
    IDEAS,
    MEMORY,
    OTHERS,
    Job,
    trials,
)
from tests.helpers.images import write_images
from tests.helpers.paths import ROOT
from tools.figures import marks
from ttl_mm.registry import DATASETS, MODELS

HERE = ROOT / 'projects' / 'accuracy_per_hour'
CIFAR = DATA['cifar10_mini']
METHODS = (*CONTENDERS, *OTHERS)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    """Two classes of 15 images to train on and 5 to test on."""
    init_default_scope('mmpretrain')
    root = tmp_path_factory.mktemp('data')
    for part, count in (('train', 15), ('test', 5)):
        for name in ('a', 'b'):
            images = root / 'cifar10_mini' / part / name
            images.parent.mkdir(parents=True, exist_ok=True)
            write_images(images, count, 32, 32)
    return root


def test_every_method_has_as_many_trials_and_every_run_a_name_of_its_own():
    for data in DATA.values():
        assert len({len(trials(data, method)) for method in METHODS}) == 1
        for method in METHODS:  # small views for all
            assert sum(setting.get('size') == data.small for setting in trials(data, method)) == 4
    tried = [pair for tries in IDEAS.values() for pair in tries]
    assert len({Job('cifar10_mini', *pair, budget=30).name for pair in tried}) == len(tried)


@pytest.mark.parametrize('method', METHODS)
def test_every_method_builds_for_both_data_sets(method, folder):
    init_default_scope('mmpretrain')
    for data in DATA.values():
        (folder / data.name / data.train).mkdir(parents=True, exist_ok=True)
        cfg = config_of(data, method, trials(data, method)[-1], folder, 100, held_out=False)
        model = MODELS.build(cfg.model)
        maps = model.backbone(torch.zeros(2, 3, data.size, data.size))[-1]
        assert maps.shape == (2, data.channels, 4, 4)


def test_held_out_images_and_the_rest_are_all_images_once(folder):
    names = ('rest', 'held_out', 'train')
    parts = [DATASETS.build(dataset_of(CIFAR, folder, name, [])) for name in names]
    rest, held_out, whole = ([d.get_data_info(i)['img_path'] for i in range(len(d))] for d in parts)
    assert (len(rest), len(held_out)) == (24, 6)
    assert sorted(rest + held_out) == sorted(whole)


def test_the_decoupled_loss_equals_a_loop():
    rng = np.random.default_rng(0)
    positive, negative = rng.random((5, 1)), rng.random((5, 8))
    rows = [-p[0] / 0.2 + np.log(sum(np.exp(n / 0.2))) for p, n in zip(positive, negative)]
    found = DecoupledHead(0.2).loss(torch.tensor(positive), torch.tensor(negative))
    assert found.item() == pytest.approx(np.mean(rows))


def test_a_run_from_calibration_to_table(folder, tmp_path, monkeypatch):
    setting = {'lr': 0.1, 'size': [[0, 16], [0.5, 24]], 'batch': 8, 'head.deputy': [1, 4]}
    monkeypatch.setattr(race, 'REFERENCE', ('simclr', {'lr': 0.1, 'batch': 8}))
    monkeypatch.setattr(race, 'ROUNDS', 1)
    monkeypatch.setattr(race, 'DATA', {'cifar10_mini': CIFAR})
    monkeypatch.setattr(race, 'jobs_in_order', lambda results: [job])
    job = Job('cifar10_mini', FAST, setting, budget=1)
    assert race.run(folder, tmp_path, limit=1) == 1
    assert race.run(folder, tmp_path) == 0  # nothing is missing
    known = json.loads((tmp_path / 'cifar10_mini/calibration.json').read_text())
    ratios = known['ratios']
    assert set(ratios) == {'fast_size16_batch8', 'fast_size24_batch8'}
    run = json.loads((tmp_path / job.name).read_text())
    cost = sum(ratios.values()) / 2 * known['seconds_per_iteration']
    assert run['iterations'] == round(1 / cost)
    assert 0 <= run['knn'] <= 100
    assert 0 <= run['linear'] <= 100
    low, high = (run['iterations'] * 8 * 2 * size**2 for size in (16, 24))
    assert low < run['pixels_forward'] < high
    monkeypatch.setattr(tables, 'BUDGETS', (1,))
    row = f'| {FAST}, small views | {run["knn"]:.1f} | {run["linear"]:.1f} | {run["epochs"]:.1f} |'
    assert row in tables.result_table(CIFAR, tmp_path)


def test_confidence_intervals_are_those_of_scipy():
    values = [41.0, 43.5, 42.2, 44.1]
    low, high = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert tables.interval(values) == pytest.approx((high - low) / 2)
    assert tables.interval([1.0]) is None


def test_a_budget_is_drawn_once_a_rival_was_measured_at_it():
    ours, rival = [{'method': 'coding'}], [{'method': 'simclr'}]
    found = {'a': {60: ours, 480: ours}, 'b': {60: rival, 170: rival}}
    assert tables.compared_budgets(found) == [60]


def test_the_best_trial_of_each_kind_is_taken_once_all_are_done(tmp_path):
    tried = trials(CIFAR, 'simclr')  # full size, three of small views, and these with Muon
    for score, setting in zip((40, 43, 41, 42, 50), tried):
        assert race.setting_of(CIFAR, 'simclr', 'plain', tmp_path) is None
        job = Job(CIFAR.name, 'simclr', setting, plan.SEARCH_BUDGET, held_out=True)
        race.write(tmp_path / job.name, {'knn': score})
    for kind, best in (('plain', tried[1]), ('full', tried[0]), ('all', {**tried[4], **MEMORY})):
        assert race.setting_of(CIFAR, 'simclr', kind, tmp_path) == best


def test_finals_follow_the_search_of_their_method_and_ours_comes_with_its_rivals(tmp_path):
    searches = list(race.jobs_in_order(tmp_path))
    assert all(job.held_out for job in searches)
    for job in searches[:20]:  # of ours and the nearest rival, on both data sets
        race.write(tmp_path / job.name, {'knn': 40})
    found = [job for job in race.jobs_in_order(tmp_path) if not job.held_out]
    first = [(job.data, job.method, job.budget, job.seed) for job in found[:2]]
    assert first == [(CIFAR.name, m, 480, 0) for m in (FAST, 'simclr')]
    budgets = {(job.budget, job.seed) for job in found if job.method == FAST}
    assert budgets == {(b, s) for b in plan.BUDGETS for s in plan.CONTENDER_SEEDS}


def test_the_page_shows_what_the_files_say():
    shown = {mark.name: mark.text for mark in marks(HERE / 'README.md')}
    assert tables.generated(HERE / 'results') == shown


def test_calibration_times_every_variant_in_every_round(folder):
    variants = [(FAST, {'lr': 0.1, 'batch': 8, 'head.deputy': [1, 4]})]
    times = measure.seconds_per_iteration('cifar10_mini', variants, folder, rounds=2, count=1)
    assert [len(t) for t in times] == [2]
    assert min(times[0]) > 0
