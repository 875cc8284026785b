"""What benchmarks name exists: nobody runs a benchmark when a recipe or a function moves."""

import ast
import importlib.util
import re

from tests.helpers.paths import ROOT

SCRIPTS = sorted((ROOT / 'tools' / 'benchmarks').glob('*.py'))


def test_recipes_that_benchmarks_name():
    text = '\n'.join(script.read_text() for script in SCRIPTS)
    named = set(re.findall(r"'(?:{root}/)?(configs/.*?\.py)'", text))
    assert len(named) >= 4
    assert [path for path in sorted(named) if not (ROOT / path).is_file()] == []


def test_names_of_ttl_mm_that_benchmarks_import():
    """Those inside functions too, which an import of the script does not reach."""
    nodes = [node for s in SCRIPTS for node in ast.walk(ast.parse(s.read_text()))]
    wanted = {
        (node.module, name.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or '').startswith('ttl_mm.')
        for name in node.names
    }
    assert len(wanted) > 30
    assert [(m, n) for m, n in sorted(wanted) if not _exists(m, n)] == []


def _exists(module: str, name: str) -> bool:
    found = importlib.import_module(module)
    if hasattr(found, name):
        return True
    return importlib.util.find_spec(f'{module}.{name}') is not None
