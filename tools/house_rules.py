"""What ruff does not know: no junk files, no config that assigns one name twice, no test module
that imports another.

Run by ``make lint`` and by pre-commit: ``python3 tools/house_rules.py``, on the standard library.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

JUNK = re.compile(r'(\.DS_Store|\.orig|\.rej|\.pyc|\.bak|\.swp|_bk\.\w+|~)$')
CONFIG = re.compile(r'^(configs|projects/[^/]+/configs)/.*\.py$')
BORROWED = re.compile(r'^tests\.(\w+\.)*(test_\w+|conftest)$')
MAX_BYTES = 2 * 2**20


def junk_files(paths: list[str]) -> list[str]:
    """Editor and system leftovers among ``paths``."""
    return [f'{path}: junk file, delete it' for path in paths if JUNK.search(path)]


def large_files(root: Path, paths: list[str]) -> list[str]:
    """Files that belong in a release, not in the repository."""
    sizes = {path: (root / path).stat().st_size for path in paths if (root / path).is_file()}
    return [f'{path}: {size} bytes, at most {MAX_BYTES}' for path, size in sizes.items()
            if size > MAX_BYTES]  # fmt: skip


def repeated_assignments(path: str, source: str) -> list[str]:
    """Names that a config binds twice at its top level: the first value would be lost in silence.

    Building on the earlier value (``pipeline = [*pipeline, x]``) is no repetition.
    """
    seen, problems = {}, []
    for statement in ast.parse(source).body:
        if not isinstance(statement, ast.Assign):
            continue
        reads = {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)}
        for target in statement.targets:
            if not isinstance(target, ast.Name):
                continue
            if target.id in seen and target.id not in reads:
                first = seen[target.id]
                problems.append(
                    f'{path}:{statement.lineno}: {target.id} was set in line {first} already'
                )
            seen[target.id] = statement.lineno
    return problems


def borrowed_tests(path: str, source: str) -> list[str]:
    """Imports of a test module or conftest from another one: what both need is a helper."""
    return [
        f'{path}:{node.lineno}: imports {node.module}, move what both need to tests/helpers'
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and BORROWED.match(node.module or '')
    ]


def check(root: Path) -> list[str]:
    """All problems among the files that git tracks or would add."""
    listed = subprocess.run(
        ['git', 'ls-files', '--cached', '--others', '--exclude-standard'],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    paths = [path for path in listed.stdout.splitlines() if (root / path).exists()]
    problems = junk_files(paths) + large_files(root, paths)
    for path in filter(CONFIG.match, paths):
        problems += repeated_assignments(path, (root / path).read_text())
    for path in paths:
        if path.startswith('tests/') and path.endswith('.py'):
            problems += borrowed_tests(path, (root / path).read_text())
    return problems


if __name__ == '__main__':
    found = check(Path(__file__).parent.parent)
    print('\n'.join(found) or 'house rules: ok')
    sys.exit(1 if found else 0)
