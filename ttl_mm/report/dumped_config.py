"""The config that mmengine dumps into a work dir, read without executing anything."""

import ast
from contextlib import suppress
from pathlib import Path

from ttl_mm.files.plain_json import read_json
from ttl_mm.files.regular import read_text


def read_literals(config: Path) -> dict:
    """Top-level assignments of a config file, as far as they are literals or ``dict(...)``.

    A value that would have to be computed is None; a file that cannot be parsed gives ``{}``.
    """
    try:
        tree = ast.parse(read_text(config))
        return {
            target.id: _literal(statement.value)
            for statement in tree.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }
    except (OSError, SyntaxError, ValueError):  # the last of bytes that are not text
        return {}
    except (RecursionError, MemoryError):  # how the parser ends where brackets are nested deeply
        return {}


def read_dumped(start: Path) -> dict:
    """Literals of the config of one start of a run, with ``result_protocol`` from results.json.

    ResultHook writes the protocol there in full: what the config names, and how it was trained.
    """
    config = read_literals(start / 'vis_data' / 'config.py')
    with suppress(OSError, ValueError, KeyError, TypeError):
        written = read_json(start.parent / 'results.json', allow_nan=True)
        config['result_protocol'] = written['protocol']
    return config


def lookup(config: dict, *path: str):
    """``config[path[0]][path[1]]...``, None where a key is missing."""
    found: object = config
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _literal(node: ast.expr):
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == 'dict':
        return {keyword.arg: _literal(keyword.value) for keyword in node.keywords}
    if isinstance(node, ast.List | ast.Tuple):
        return [_literal(element) for element in node.elts]
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        return None
