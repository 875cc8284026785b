"""Print which rooms of ``ttl_mm`` import which, and every cycle: ``python tools/import_graph.py``.

A room is a top-level module or subpackage, and inside ``engine`` and ``tasks`` each subpackage is
one too. Imports inside functions count. Names of modules in strings do not: the registry and the
command line find what lies above them by name. Exits with 1 if there is a cycle.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPLIT = ('engine', 'tasks')  # packages whose subpackages are rooms of their own


def room_of(module: str) -> str:
    """'ttl_mm.engine.hooks.probe_hook' -> 'engine.hooks'; 'ttl_mm.datasets.views' -> 'datasets'."""
    parts = module.split('.')[1:]
    return '.'.join(parts[:2] if parts and parts[0] in SPLIT else parts[:1]) or 'ttl_mm'


def imports_of(source: str) -> Iterator[str]:
    """The modules of ``ttl_mm`` that a source imports, wherever the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


def import_graph(root: Path) -> dict[str, set[str]]:
    """Room -> the other rooms that it imports."""
    files = {
        '.'.join(path.relative_to(root).with_suffix('').parts).removesuffix('.__init__'): path
        for path in (root / 'ttl_mm').rglob('*.py')
    }
    graph: dict[str, set[str]] = defaultdict(set)
    for module, path in files.items():
        graph[room_of(module)] |= {
            room_of(_module(name, files))
            for name in imports_of(path.read_text())
            if name.split('.')[0] == 'ttl_mm'
        }
    return {room: others - {room} for room, others in graph.items()}


def _module(name: str, files: dict) -> str:
    """The module that holds ``name``, which may be a class or function in it."""
    while name not in files and '.' in name:
        name = name.rpartition('.')[0]
    return name


def components(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components with more than one room."""
    reach = {room: _reachable(graph, room) for room in graph}
    found = {
        frozenset(other for other in reach[room] if room in reach.get(other, ())) for room in graph
    }
    return [set(component) for component in found if len(component) > 1]


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen, pending = set(), [start]
    while pending:
        for other in graph.get(pending.pop(), ()):
            if other not in seen:
                seen.add(other)
                pending.append(other)
    return seen


def main() -> int:
    graph = import_graph(ROOT)
    for room in sorted(graph):
        print(f'{room:20} imports {", ".join(sorted(graph[room])) or "nothing"}')
    cycles = components(graph)
    for cycle in cycles:
        print(f'CYCLE: {", ".join(sorted(cycle))}')
    if not cycles:
        try:
            order = TopologicalSorter(graph).static_order()
            print(f'no cycle; from the bottom: {", ".join(order)}')
        except CycleError as error:  # pragma: no cover - components() finds every cycle
            raise AssertionError(error) from error
    return 1 if cycles else 0


if __name__ == '__main__':
    sys.exit(main())
