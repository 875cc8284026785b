"""The study on generated images: every stage, a stop in between, the page from its logs."""

import json
from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev

import pytest

from projects.efficiency_study import study
from projects.efficiency_study.plan import PLAN, Plan
from projects.efficiency_study.tables import generated, lead_table, methods_table, write_readme
from tests.helpers import toy_run
from tests.helpers.paths import ROOT
from ttl_mm.config import read_config
from ttl_mm.errors import UserError
from ttl_mm.report.logs import load_run

HERE = ROOT / 'projects' / 'efficiency_study'


@pytest.fixture(scope='module')
def plan(tmp_path_factory) -> Plan:
    images = str(toy_run.make_images(tmp_path_factory.mktemp('images')))
    return Plan(
        methods={name: PLAN.methods[name] for name in ('ttl_ranks2-10', 'simclr')},
        rates=(0.01, 0.1),
        search_epochs=1,
        epochs=2,
        seeds=(0, 1),
        ablations={'k1': ('ttl_ranks2-10', {'head.deputy': 1})},
        finals={'simclr': (2,), 'k1': (1,)},
        options={
            'train_dataloader.batch_size': 11,
            'train_dataloader.dataset.data_root': images,
            'default_hooks.probe.train.data_root': images,
            'default_hooks.probe.test.data_root': images,
        },
    )


@pytest.fixture(scope='module')
def done(plan, tmp_path_factory) -> tuple[Path, Path]:
    """Work dir and results of a whole study; its first run by the command, the others forked."""
    work_dir, results = tmp_path_factory.mktemp('work'), tmp_path_factory.mktemp('results')
    study.train(next(plan.search()), work_dir, threads=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, 'train', train_forked)
        study.run(plan, work_dir, results)
    assert list(study.publish(plan, work_dir, results)) == []
    return work_dir, results


def train_forked(job, work_dir: Path, threads: int | None) -> None:
    folder = work_dir / job.name
    folder.mkdir(parents=True, exist_ok=True)
    assert toy_run.run(ROOT / job.config, folder, cfg_options=job.changes()) == [0]


def test_every_run_is_there(done, plan):
    names = sorted(str(log.parents[1].relative_to(done[1])) for log in done[1].rglob('*.json'))
    assert names == sorted(
        [f'search/{m}-lr{lr}' for m in plan.methods for lr in plan.rates]
        + [f'methods/{m}-seed{s}' for m in plan.methods for s in plan.seeds]
        + ['ablations/k1', 'methods/simclr-seed2', 'methods/k1-seed1']
    )


def test_a_second_start_trains_nothing(done, plan, monkeypatch):
    def refuse(*args):
        raise AssertionError(args)

    monkeypatch.setattr(study, 'train', refuse)
    study.run(plan, done[0], Path('nowhere'))
    study.run(plan, Path('nowhere'), done[1])  # what was published need not be done again


def test_only_what_is_missing_is_trained(done, plan, monkeypatch):
    trained = []
    monkeypatch.setattr(study, 'train', lambda job, *args: trained.append(job.name))
    study.run(replace(plan, seeds=(0, 1, 5)), *done)
    assert trained == ['methods/ttl_ranks2-10-seed5', 'methods/simclr-seed5']


def test_an_ablation_in_the_finals_changes_its_method_at_full_length(done, plan):
    config = read_config(done[0] / 'methods/k1-seed1' / Path(plan.methods['ttl_ranks2-10']).name)
    assert config.model.head.deputy == 1
    assert config.train_cfg.max_epochs == plan.epochs
    assert config.optim_wrapper.optimizer.lr == study.best_rates(plan, done[0])['ttl_ranks2-10']


def test_the_learning_rate_of_the_best_search_run_is_used(done, plan):
    def knn(name):
        lines = (done[1] / name / 'vis_data' / 'scalars.json').read_text().splitlines()
        return [r['probe/knn_top1'] for r in map(json.loads, lines) if 'probe/knn_top1' in r][-1]

    for method, rate in study.best_rates(plan, done[0]).items():
        scores = {lr: knn(f'search/{method}-lr{lr}') for lr in plan.rates}
        assert scores[rate] == max(scores.values())
        dumped = Path(plan.methods[method]).name
        config = read_config(done[0] / f'methods/{method}-seed1' / dumped)
        assert config.optim_wrapper.optimizer.lr == rate
        assert config.randomness.seed == 1
        assert config.param_scheduler[1].end == plan.epochs


def test_the_table_has_mean_and_spread_of_the_logs(done, plan):
    ends = []
    for seed in (0, 1, 2):
        log = done[1] / f'methods/simclr-seed{seed}' / 'vis_data' / 'scalars.json'
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        ends.append([r['probe/linear_top1'] for r in lines if 'probe/linear_top1' in r][-1])
    (row,) = [r for r in methods_table(plan, done[1]).splitlines() if r.startswith('| simclr')]
    assert f'| {mean(ends):.1f} ± {stdev(ends):.1f} |' in row
    assert row.endswith('| 3 |')


def test_the_lead_is_the_difference_of_the_means(done, plan):
    def end(method, *seeds):
        logs = [done[1] / f'methods/{method}-seed{s}/vis_data/scalars.json' for s in seeds]
        lines = [json.loads(log.read_text().splitlines()[-1]) for log in logs]
        return mean(line['probe/knn_top1'] for line in lines)

    ours = {'ttl_ranks2-10': end('ttl_ranks2-10', 0, 1), 'k1': end('k1', 1)}
    best = max(ours, key=ours.get)
    lead = ours[best] - end('simclr', 0, 1, 2)
    last = lead_table(plan, done[1]).splitlines()[-1]
    assert last == f'| {plan.epochs} | {best} | simclr | {lead:+.1f} |'


def test_the_report_knows_epochs_and_hours_of_a_published_run(done):
    published, run = (load_run(folder / 'methods/simclr-seed0') for folder in reversed(done))
    assert published.iterations_per_epoch == run.iterations_per_epoch
    assert published.hours(run.last_iteration) > 0


def test_a_page_without_a_mark_is_an_error(done, plan, tmp_path):
    (tmp_path / 'README.md').write_text('<!-- search -->\n<!-- /search -->\n')
    with pytest.raises(UserError, match='methods'):
        write_readme(plan, done[1], tmp_path)


def test_the_published_page_is_what_the_published_logs_give():
    page = (HERE / 'README.md').read_text()
    for mark, text in generated(PLAN, HERE / 'results').items():
        assert f'<!-- {mark} -->\n{text}\n<!-- /{mark} -->' in page, f'study.py publish: {mark}'


@pytest.mark.parametrize('method', PLAN.methods)
def test_methods_share_everything_but_the_method(method):
    """The head of a comparison: network, views, batch, optimizer and probe are the same for all."""
    config, first = (
        read_config(ROOT / PLAN.methods[method]),
        read_config(ROOT / PLAN.methods['byol']),
    )
    assert config.model.backbone == first.model.backbone
    assert config.optim_wrapper == first.optim_wrapper
    assert config.param_scheduler == first.param_scheduler
    assert config.default_hooks.probe == first.default_hooks.probe
    assert config.train_dataloader.batch_size == first.train_dataloader.batch_size
    if method != 'supervised':
        assert config.train_dataloader == first.train_dataloader
