"""Which lines of ttl_mm the tests run: ``python -m pytest -p tests.helpers.line_coverage``.

coverage.py on Python 3.11 traces every line of every package, which makes the suite longer by a
third. Here a loader adds to each statement of ttl_mm an assignment that notes its line, in memory
that forked processes share, however they end. coverage.py reports from the notes, as
``[tool.coverage.report]`` says.
"""

import ast
import mmap
import sys
from collections import defaultdict
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

import pytest
from coverage import Coverage

from tests.helpers.paths import ROOT

NAME = '__lines_run__'  # of the notes in every module: a byte per line, 1 if it ran
notes: dict[str, memoryview] = {}  # path of a module -> its notes
of_workers: dict[str, set[int]] = defaultdict(set)  # path -> lines that other processes ran


def add_notes(tree: ast.Module) -> ast.Module:
    """Note each line where a statement begins; ``except`` and ``case`` with what follows them."""
    for node in list(ast.walk(tree)):
        for name in ('body', 'orelse', 'finalbody'):
            if isinstance(block := getattr(node, name, None), list):
                header = {getattr(node, 'pattern', node).lineno} if is_branch(node) else set()
                setattr(node, name, list(noted(block, header)))
    return tree


def is_branch(node: ast.AST) -> bool:
    return isinstance(node, (ast.ExceptHandler, ast.match_case))


def noted(block: list[ast.stmt], lines: set[int]):
    """The block's statements, each after the notes of ``lines`` and of its own.

    What must come first, a docstring and imports from ``__future__``, comes before its note.
    """
    for statement in block:
        decorators = getattr(statement, 'decorator_list', [])
        lines |= {statement.lineno, *(decorator.lineno for decorator in decorators)}
        if not comes_first(statement):
            yield from (note(line, statement) for line in lines)
            lines = set()
        yield statement
    yield from (note(line, block[-1]) for line in lines)


def comes_first(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.ImportFrom) and statement.module == '__future__'


def note(line: int, place: ast.stmt) -> ast.Assign:
    """``NAME[line] = 1``, which tracebacks place at a statement."""
    at = dict.fromkeys(('lineno', 'end_lineno'), place.lineno)
    at |= dict.fromkeys(('col_offset', 'end_col_offset'), place.col_offset)
    one, index = ast.Constant(1, **at), ast.Constant(line, **at)
    notes_of_module = ast.Name(NAME, ast.Load(), **at)
    return ast.Assign([ast.Subscript(notes_of_module, index, ast.Store(), **at)], one, **at)


class NotingLoader(SourceFileLoader):
    """Runs a module with notes; the compiled form is not kept."""

    def get_code(self, fullname: str):
        return compile(add_notes(ast.parse(self.get_data(self.path))), self.path, 'exec')

    def exec_module(self, module: ModuleType) -> None:
        if self.path not in notes:  # else it is imported again
            size = self.get_data(self.path).count(b'\n') + 2
            notes[self.path] = memoryview(mmap.mmap(-1, size))
        setattr(module, NAME, notes[self.path])
        super().exec_module(module)


class NotingFinder(MetaPathFinder):
    """Finds the modules of a package, and gives them their loader."""

    def __init__(self, package: str):
        self.package = package

    def find_spec(self, fullname, path=None, target=None) -> ModuleSpec | None:
        if fullname.partition('.')[0] != self.package:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = NotingLoader(spec.loader.name, spec.loader.path)
        return spec


def lines_run() -> dict[str, list[int]]:
    """Path of a module -> its lines that ran in this process and those forked from it."""
    return {path: [line for line, ran in enumerate(seen) if ran] for path, seen in notes.items()}


def coverage_of(lines: dict[str, list[int]], files: list[str]) -> Coverage:
    """What coverage.py says of ``files`` when these lines ran."""
    coverage = Coverage(data_file=None)
    coverage.get_data().add_lines(lines)
    coverage.get_data().touch_files(files)
    return coverage


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Before the first import of ttl_mm."""
    if any(name.partition('.')[0] == 'ttl_mm' for name in sys.modules):
        raise pytest.UsageError('ttl_mm was imported before its lines could be noted')
    sys.meta_path.insert(0, NotingFinder('ttl_mm'))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error) -> None:
    """A worker of pytest-xdist has ended: add what it noted."""
    for path, lines in getattr(node, 'workeroutput', {}).get('lines_run', {}).items():
        of_workers[path] |= set(lines)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker, hand the notes on; else print the report, and fail if too few lines ran."""
    if hasattr(session.config, 'workeroutput'):
        session.config.workeroutput['lines_run'] = lines_run()
        return
    for path, lines in lines_run().items():
        of_workers[path] |= set(lines)
    files = sorted(map(str, (ROOT / 'ttl_mm').rglob('*.py')))
    coverage = coverage_of({path: sorted(lines) for path, lines in of_workers.items()}, files)
    print()
    share, least = coverage.report(), coverage.get_option('report:fail_under')
    if share < least:
        print(f'{share:.1f} % of the lines of ttl_mm ran, {least} % must')
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
