"""Judging, verdicts, early stopping, symptoms and trials of settings read no labels.

Only the tables of projects/judge_validation do, and forecasts of an accuracy that a probe logged.
"""

import ast
from types import SimpleNamespace

import pytest
from mmpretrain.structures import DataSample

from tests.helpers.digits_run import logged, train_digits
from tests.helpers.paths import ROOT
from ttl_mm.engine.hooks import judge_hook

MODULES = [
    'ttl_mm/gauges/label_free.py', 'ttl_mm/gauges/verdict.py', 'ttl_mm/gauges/symptoms.py',
    'ttl_mm/gauges/forecast.py', 'ttl_mm/evaluation/view_features.py',
    'ttl_mm/engine/hooks/judge_hook.py', 'ttl_mm/engine/hooks/early_stop_hook.py',
    'ttl_mm/engine/guards/symptoms.py', 'ttl_mm/engine/guards/collapse.py',
    'ttl_mm/engine/state/measured.py', 'ttl_mm/planning/tried.py', 'ttl_mm/report/forecasting.py',
]  # fmt: skip


@pytest.mark.parametrize('module', MODULES)
def test_no_name_in_the_code_is_that_of_a_label(module):
    """Neither of a variable, an attribute, a key nor an import."""
    tree = ast.parse((ROOT / module).read_text())
    texts = [ast.get_docstring(node, clean=False) for node in ast.walk(tree)
             if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef))]  # fmt: skip
    words = set()
    for node in ast.walk(tree):
        for field in ('id', 'attr', 'arg', 'name'):
            if isinstance(value := getattr(node, field, None), str):
                words.add(value)
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and value not in texts and ' ' not in value:  # no sentence
            words.add(value)
    assert not {word for word in words if 'label' in word.lower()} - {'label_free'}


def test_a_judged_run_is_the_same_where_images_have_no_labels(tmp_path, monkeypatch, capsys):
    hooks = {
        'judge': {'type': 'ttl_mm.JudgeHook', 'share': 0.9},
        'early_stop': {'type': 'ttl_mm.EarlyStopHook', 'patience': 50},
        'symptoms': {'type': 'ttl_mm.SymptomsHook', 'interval': 1},
        'collapse': {'type': 'ttl_mm.CollapseHook', 'interval': 1},
        'console': {'type': 'ttl_mm.ConsoleHook'},
    }
    clock = SimpleNamespace(perf_counter=lambda: 0.0)  # no judgment is left out
    monkeypatch.setattr(judge_hook, 'time', clock)
    loop, found, given = {'by_epoch': True, 'max_epochs': 2}, [], []
    real = DataSample.set_gt_label
    for set_label in (lambda self, value: given.append(value) or real(self, value),
                      lambda self, value: self):  # fmt: skip
        monkeypatch.setattr(DataSample, 'set_gt_label', set_label)
        work_dir = tmp_path / f'run_{len(found)}'
        train_digits(work_dir, images=192, batch_size=64, loop=loop, **hooks)
        found.append(logged(work_dir, 'judge/view_invariance'))
    printed = capsys.readouterr().out.splitlines()
    (line,) = {line.partition('forecast: ')[2][:30] for line in printed if 'step 6/6' in line}
    assert line.startswith('neighbors kept under views ')
    assert sum('an image keeps' in line for line in printed) == 2
    assert given  # the images of the first run have labels
    assert len(found[0]) > 1
    assert found[0] == found[1]
