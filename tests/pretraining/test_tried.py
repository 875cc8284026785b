"""``ttl plan --try``: settings are trained on the user's images and judged on the same views."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from mmengine.config import Config
from scipy.stats import sem

from tests.helpers.digits_run import DIGITS
from tests.helpers.images import make_folder
from tests.helpers.paths import ROOT
from ttl_mm.cli import main
from ttl_mm.planning import Setting, Tried, choose, make_plan, settings_to_try, tried, write_config

RECIPE = ROOT / 'projects/efficiency_study/configs/ttl_ranks2-10.py'
PLAN = make_plan(images=1000, classes=10, k=6)


def test_the_better_setting_is_written(tmp_path, forked, monkeypatch, capsys):
    monkeypatch.setattr(tried, 'LEAST_SECONDS', 0.0)
    monkeypatch.setattr(tried, 'FEWEST_STEPS', 1)
    monkeypatch.setattr(tried, 'run_trial', lambda config, ranks: SimpleNamespace(step=0.5))
    measured, real = [], tried.measure_setting

    def measure(work, config):
        """The third is made the best: smaller views."""
        measured.append((work.name, config.train_dataloader.dataset.pipeline[0].views[0].size))
        steps, shares = real(work, config)
        assert steps == (3 if work.name == 'run_2' else 2)  # the smaller views are cheaper
        assert shares.shape == (24,)
        assert ((shares >= 0) & (shares <= 1)).all()
        return steps, shares + (1 if work.name == 'run_2' else 0)

    monkeypatch.setattr(tried, 'measure_setting', measure)
    folder, out = make_folder(tmp_path / 'images', count=8, size=40), tmp_path / 'mine.py'
    line = ['--data', str(folder), '--config', str(RECIPE), '--epochs', '1', '--out', str(out)]
    assert main(['plan', *line, '--classes', '5', '--try', '4s']) == 0
    assert measured == [(f'run_{i}', 32) for i in range(4)]  # all on the views of the plan
    printed = capsys.readouterr().out
    chosen = [row for row in printed.splitlines() if row.endswith('chosen')]
    assert 'views of 75% of the size' in chosen[0]
    views = Config.fromfile(out).train_dataloader.dataset.pipeline[0].views
    assert {view.size for view in views} == {24}
    assert 'chosen: views of 75% of the size' in out.read_text()


def test_only_a_clear_gain_is_chosen():
    """Clear beside the noise of the difference, image by image, which is less than that of each."""
    plain, other = (Setting(name, PLAN) for name in ('as planned', 'rate'))
    rng = np.random.default_rng(0)
    images, noise = rng.uniform(0, 0.2, 400), rng.normal(0, 0.05, 400)
    noise -= noise.mean()  # whose standard error is 0.0025
    for gain, chosen in ((0.01, other), (0.0055, other), (0.0045, plain), (-0.1, plain),
                         (math.nan, plain)):  # fmt: skip
        found = choose([Tried(plain, 9, images), Tried(other, 9, images + noise + gain)])
        assert found.setting is chosen, gain
    assert found.error == pytest.approx(sem(images, ddof=0))


def test_settings_change_one_thing_each(tmp_path):
    found = settings_to_try(PLAN, RECIPE)
    assert [(s.plan.k, s.plan.recipe.lr / PLAN.recipe.lr, s.scale) for s in found] == [
        (6, 1, 1), (6, pytest.approx(3, rel=1e-3), 1), (6, 1, 0.75), (3, 1, 1),
    ]  # fmt: skip
    assert len(settings_to_try(PLAN, RECIPE, free_k=False)) == 3
    main_recipe = ROOT / 'configs/ttl_r50_8xb104_200e.py'
    path = write_config(PLAN, main_recipe, tmp_path / 'small.py', str(tmp_path), scale=0.75)
    config = Config.fromfile(path)
    assert tuple(config.model.online_sizes) == (72, 168)
    assert tuple(config.model.target_sizes) == (96, 168)
    assert {view.size for view in config.train_dataloader.dataset.pipeline[0].views} == {168}


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (['--images', '100', '--try', '5m'], '--try trains on your images'),
        (['--data', '.', '--try', '5'], "'5' is no time: write it as 90s"),
        (['--data', 'FOLDER', '--try', '90s'], 'each needs at least 60 s. Give --try 3m'),
    ],
)
def test_what_cannot_be_tried_is_refused(options, message, tmp_path, capsys):
    folder = make_folder(tmp_path / 'images', count=8, size=20)
    options = [str(folder) if word == 'FOLDER' else word for word in options]
    line = [*options, '--classes', '3', '--config', str(DIGITS), '--out', str(tmp_path / 'c.py')]
    try:
        code = main(['plan', *line])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert message in capsys.readouterr().err
