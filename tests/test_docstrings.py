"""The examples in docstrings are true, and the pure functions that users call have one."""

import ast
import doctest
import importlib
import inspect

import pytest

from tests.helpers.paths import ROOT
from ttl_mm import evaluation, gauges
from ttl_mm.models import losses


def with_examples() -> list[str]:
    """Names of modules with a line that begins with ``>>>``."""
    files = [path for top in ('ttl_mm', 'projects', 'tools') for path in (ROOT / top).rglob('*.py')]
    found = [path for path in files if '    >>> ' in path.read_text()]
    return sorted('.'.join(path.relative_to(ROOT).with_suffix('').parts) for path in found)


def test_the_search_finds_modules():
    assert {'ttl_mm.errors', 'ttl_mm.models.losses', 'tools.docs_versions'} <= set(with_examples())


@pytest.mark.parametrize('name', with_examples())
def test_examples_are_true(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize('room', [gauges, evaluation, losses], ids=lambda room: room.__name__)
def test_public_functions_have_an_example(room):
    """Those of analysis.py take whole data sets: docs/clustering.md shows them at work."""
    tree = ast.parse(inspect.getsource(room))
    own = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = getattr(room, '__all__', None) or [name for name in own if name[0] != '_']
    functions = [getattr(room, name) for name in names]
    without = {
        function.__name__ for function in functions
        if inspect.isfunction(function) and '>>> ' not in function.__doc__
    }  # fmt: skip
    assert without - {'analyze_features', 'explore_ranks'} == set()
