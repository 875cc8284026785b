"""The recipes that benchmarks train by exist: nobody runs a benchmark when a recipe moves."""

import re

from tests.helpers.paths import ROOT


def test_recipes_that_benchmarks_name():
    scripts = (ROOT / 'tools' / 'benchmarks').glob('*.py')
    named = {path for s in scripts for path in re.findall(r"'(configs/.*?\.py)'", s.read_text())}
    assert len(named) >= 4
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []
