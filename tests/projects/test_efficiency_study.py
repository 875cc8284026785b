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
from tools.figures import marks
from ttl_mm.config import read_config
from ttl_mm.errors import UserError
from ttl_mm.report.logs import load_run

HERE = ROOT / 'projects' / 'efficiency_study'


@pytest.fixture(scope='module')
def plan(tmp_path_factory) -> Plan:
    images = str(toy_run.make_images(tmp_path_factory.mktemp('images')))
    return Plan(
        methods={name: PLAN.methods[name] for name in ('ttl_ranks2-10', 'simclr')},
        rates=(0.01, 0.1), search_epochs=1, epochs=2, seeds=(0, 1),
        ablations={'k1': ('ttl_ranks2-10', {'head.deputy': 1})},
        finals={'simclr': (2,), 'k1': (1,)},
        options={
            'train_dataloader.batch_size': 11,
            'train_dataloader.dataset.data_root': images,
            'default_hooks.probe.train.data_root': images,
            'default_hooks.probe.test.data_root': images,
        },
    )  # fmt: skip


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


def test_only_what_is_missing_is_trained(done, plan, monkeypatch):
    trained = []
    monkeypatch.setattr(study, 'train', lambda job, *args: trained.append(job.name))
    study.run(plan, done[0], Path('nowhere'))
    study.run(plan, Path('nowhere'), done[1])  # what was published need not be done again
    assert trained == []
    study.run(replace(plan, seeds=(0, 1, 5)), *done)
    assert trained == ['methods/ttl_ranks2-10-seed5', 'methods/simclr-seed5']


def test_the_learning_rate_of_the_best_search_run_is_used(done, plan):
    best = study.best_rates(plan, done[0])
    for method, rate in best.items():
        scores = {lr: last('knn', done[1], f'search/{method}-lr{lr}') for lr in plan.rates}
        assert scores[rate] == max(scores.values())
        dumped = Path(plan.methods[method]).name
        config = read_config(done[0] / f'methods/{method}-seed1' / dumped)
        assert config.optim_wrapper.optimizer.lr == rate
        assert config.randomness.seed == 1
        assert config.param_scheduler[1].end == plan.epochs

    ablation = read_config(done[0] / 'methods/k1-seed1' / Path(plan.methods['ttl_ranks2-10']).name)
    assert ablation.model.head.deputy == 1
    assert ablation.train_cfg.max_epochs == plan.epochs  # those of its method, not of the search
    assert ablation.optim_wrapper.optimizer.lr == best['ttl_ranks2-10']


def last(probe: str, results: Path, *names: str) -> float:
    """The mean over some runs of their last logged accuracy."""
    values = []
    for name in names:
        lines = map(json.loads, (results / name / 'vis_data/scalars.json').read_text().splitlines())
        values.append([r for r in lines if f'probe/{probe}_top1' in r][-1][f'probe/{probe}_top1'])
    return mean(values)


def test_the_tables_have_mean_spread_and_lead_of_the_logs(done, plan):
    simclr = [f'methods/simclr-seed{seed}' for seed in (0, 1, 2)]
    ends = [last('linear', done[1], name) for name in simclr]
    (row,) = [r for r in methods_table(plan, done[1]).splitlines() if r.startswith('| simclr')]
    assert f'| {mean(ends):.1f} ± {stdev(ends):.1f} |' in row
    assert row.endswith('| 3 |')

    seeds = [f'methods/ttl_ranks2-10-seed{seed}' for seed in (0, 1)]
    ours = {'ttl_ranks2-10': last('knn', done[1], *seeds)}
    ours['k1'] = last('knn', done[1], 'methods/k1-seed1')
    best = max(ours, key=ours.get)
    lead = ours[best] - last('knn', done[1], *simclr)
    line = lead_table(plan, done[1]).splitlines()[-1]
    assert line == f'| {plan.epochs} | {best} | simclr | {lead:+.1f} |'


def test_the_report_knows_epochs_and_hours_of_a_published_run(done):
    published, run = (load_run(folder / 'methods/simclr-seed0') for folder in reversed(done))
    assert published.iterations_per_epoch == run.iterations_per_epoch
    assert published.hours(run.last_iteration) > 0


def test_a_page_without_a_mark_is_an_error(done, plan, tmp_path):
    (tmp_path / 'README.md').write_text('<!-- search: study.py publish -->\n<!-- /search -->\n')
    with pytest.raises(UserError, match='methods'):
        write_readme(plan, done[1], tmp_path)


def test_the_published_page_is_what_the_published_logs_give():
    shown = {mark.name: mark.text for mark in marks(HERE / 'README.md')}
    assert generated(PLAN, HERE / 'results') == shown


def test_methods_share_everything_but_the_method():
    """Network, views, batch, optimizer and probe are the same for all."""
    configs = {name: read_config(ROOT / path) for name, path in PLAN.methods.items()}
    first = configs['byol']
    for method, config in configs.items():
        assert config.optim_wrapper == first.optim_wrapper, method
        assert config.param_scheduler == first.param_scheduler, method
        assert config.model.backbone == first.model.backbone, method
        assert config.default_hooks.probe == first.default_hooks.probe, method
        assert config.train_dataloader.batch_size == first.train_dataloader.batch_size, method
        if method != 'supervised':
            assert config.train_dataloader == first.train_dataloader, method
