"""The tables of docs/judge.md are those of the published runs."""

import json

import pytest
from scipy.stats import spearmanr

from projects.judge_validation import forecasts
from projects.judge_validation.tables import (
    at_end,
    comparable,
    rate_table,
    read,
    regret_table,
    regrets,
    stopped_at,
    study_runs,
    try_table,
    verdict_table,
)
from projects.judge_validation.validate import DOCS, RESULTS, TRIED


def test_tables_are_those_of_the_results():
    text, runs = DOCS.read_text(), comparable(read(RESULTS))
    assert all(forecasts.table(quantity) in text for quantity in forecasts.CURVES)
    assert forecasts.kinds_table() in text
    assert regret_table(runs) in text
    assert rate_table(read(RESULTS)) in text
    assert verdict_table(runs) in text
    assert try_table(json.loads(TRIED.read_text())) in text


def test_correlation_and_regret_equal_plain_ones():
    runs = comparable(read(RESULTS))
    ends = [(run['rows'][-1]['view_invariance'], run['rows'][-1]['knn']) for run in runs]
    found = at_end(runs, 'view_invariance', 'knn')
    assert found == pytest.approx(spearmanr(*zip(*ends)).statistic)
    assert found > 0.6  # it is called the one to go by
    rows = [{'knn': 1.0, 'x': 9}, {'knn': 5.0, 'x': 1}, {'knn': 3.0, 'x': 2}]
    assert regrets([{'rows': rows}], 'x', 'knn') == [2.0]
    values = [{'x': value} for value in (1, 3, 2, 2, 5)]
    assert [stopped_at({'rows': values}, 'x', patience) for patience in (1, 2, 3)] == [2, 3, 4]


def test_the_published_study_is_read_as_it_was_logged():
    runs = study_runs()
    assert len(runs) > 60
    assert all(run['rows'][0]['step'] == 0 and run['rows'][-1]['train_rank'] for run in runs)
    assert -1 < at_end(runs, 'train_rank', 'knn') < 1
