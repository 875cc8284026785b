"""The tables of docs/judge.md are those of the published runs."""

import pytest
from scipy.stats import spearmanr

from projects.judge_validation import forecasts
from projects.judge_validation.pages import DOCS
from projects.judge_validation.tables import at_end, comparable, read, regret_table, regrets
from projects.judge_validation.validate import RESULTS


def test_tables_are_those_of_the_results():
    text, runs = DOCS.read_text(), read(RESULTS)
    assert regret_table(runs) in text
    assert all(forecasts.table(quantity) in text for quantity in forecasts.CURVES)


def test_correlation_and_regret_equal_plain_ones():
    runs = comparable(read(RESULTS))
    ends = [(run['rows'][-1]['view_invariance'], run['rows'][-1]['knn']) for run in runs]
    found = at_end(runs, 'view_invariance', 'knn')
    assert found == pytest.approx(spearmanr(*zip(*ends)).statistic)
    assert found > 0.6  # it is called the one to go by
    rows = [{'knn': 1.0, 'x': 9}, {'knn': 5.0, 'x': 1}, {'knn': 3.0, 'x': 2}]
    assert regrets([{'rows': rows}], 'x', 'knn') == [2.0]
