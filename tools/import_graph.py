"""Print which rooms of ``ttl_mm`` import which, and every cycle: ``python tools/import_graph.py``.

A room is a top-level module or subpackage; inside ``engine`` and ``tasks`` each subpackage is one
too. Imports inside functions count. Names of modules in strings do not: the registry and the
command line find what lies above them by name. Exits with 1 if there is a cycle.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

SPLIT = ('engine', 'tasks')  # packages whose subpackages are rooms of their own


def imports_of(source: str) -> Iterator[str]:
    """The full names that a source imports, wherever the import stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


def import_graph(root: Path) -> dict[str, set[str]]:
    """Room -> the other rooms that it imports, for the package below ``root``."""
    package = root / 'ttl_mm'
    rooms = {path.stem for path in package.iterdir()}
    rooms |= {f'{name}.{path.name}' for name in SPLIT for path in (package / name).glob('*/')}

    def room_of(name: str) -> str:
        """'ttl_mm.engine.hooks.probe_hook' -> 'engine.hooks'; 'ttl_mm.engine.LARS' -> 'engine'."""
        _, *parts = name.split('.')
        candidates = '.'.join(parts[:2]), '.'.join(parts[:1])
        return next((room for room in candidates if room in rooms), 'ttl_mm')

    graph: dict[str, set[str]] = defaultdict(set)
    for path in package.rglob('*.py'):
        module = '.'.join(path.relative_to(root).with_suffix('').parts).removesuffix('.__init__')
        names = [n for n in imports_of(path.read_text()) if n.split('.')[0] == 'ttl_mm']
        graph[room_of(module)] |= {room_of(name) for name in names} - {room_of(module)}
    return dict(graph)


def cycles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The strongly connected components with more than one room."""
    reach = {room: set(others) for room, others in graph.items()}
    for middle in graph:
        for reached in reach.values():
            if middle in reached:
                reached |= reach[middle]
    return {frozenset(o for o in reach[room] if room in reach[o]) for room in graph} - {frozenset()}


def main() -> int:
    graph = import_graph(Path(__file__).resolve().parent.parent)
    for room in sorted(graph):
        print(f'{room:20} imports {", ".join(sorted(graph[room])) or "nothing"}')
    found = cycles(graph)
    for cycle in found:
        print(f'CYCLE: {", ".join(sorted(cycle))}')
    if not found:
        print(f'no cycle; from the bottom: {", ".join(TopologicalSorter(graph).static_order())}')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
