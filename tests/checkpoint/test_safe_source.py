"""No code path of ours can run what a data file holds."""

import ast

from tests.helpers.paths import ROOT

FOLDERS = ('ttl_mm', 'tools', 'configs', 'projects', 'tests', 'requirements')
ROUND_TRIPS = ('pickle.loads',)  # a test may unpickle what it has just pickled itself
# spelling of the call -> what its keywords must hold, None where nothing makes it safe
RULES = {
    'torch.load': ('weights_only', True),
    'torch.jit.load': None,
    'pickle.load': None,
    'pickle.loads': None,
    'joblib.load': None,
    'yaml.load': None,
    'yaml.unsafe_load': None,
    'numpy.load': ('allow_pickle', False),
}


def imported_names(tree):
    """``np`` -> ``numpy``, ``load`` -> ``torch.load`` and so on."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update({a.asname: a.name for a in node.names if a.asname})
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update({a.asname or a.name: f'{node.module}.{a.name}' for a in node.names})
    return names


def dotted(node, names):
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        return f'{dotted(node.value, names)}.{node.attr}'
    return ''


def unsafe_calls(source):
    """Line and spelling of every call that could run what it reads."""
    tree = ast.parse(source)
    names = imported_names(tree)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or dotted(node.func, names) not in RULES:
            continue
        rule = RULES[dotted(node.func, names)]
        keywords = {k.arg: getattr(k.value, 'value', None) for k in node.keywords}
        by_default = rule == ('allow_pickle', False) and 'allow_pickle' not in keywords
        if not by_default and (rule is None or keywords.get(rule[0]) is not rule[1]):
            found.append((node.lineno, dotted(node.func, names)))
    return found


def test_every_load_in_the_tree_is_safe():
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob('*.py')]
    assert len(files) > 20
    problems = [
        f'{path.relative_to(ROOT)}:{line} {call}'
        for path in files
        for line, call in unsafe_calls(path.read_text())
        if not (path.is_relative_to(ROOT / 'tests') and call in ROUND_TRIPS)
    ]
    assert problems == []


def test_the_test_tells_unsafe_calls_from_safe_ones():
    for source in (
        'import torch\ntorch.load(f)',
        'import torch\ntorch.load(f, weights_only=False)',
        'import torch\ntorch.load(f, weights_only=flag)',
        'import torch as t\nt.load(f)',
        'from torch import load\nload(f)',
        'import pickle as p\np.loads(b)',
        'import numpy as np\nnp.load(f, allow_pickle=True)',
    ):
        assert len(unsafe_calls(source)) == 1, source
    source = 'import torch, numpy\ntorch.load(f, weights_only=True)\nnumpy.load(f)\njson.load(f)'
    assert unsafe_calls(source) == []
