"""What the site makes from the code and from the index: navigation, commands, public names."""

import argparse
import importlib
import inspect
import re

from sphinx.application import Sphinx
from sphinx.util import logging

from ttl_mm.cli import build_parser

#: packages whose ``__all__`` is the Python API
PUBLIC = (
    'ttl_mm',
    'ttl_mm.models',
    'ttl_mm.datasets',
    'ttl_mm.evaluation',
    'ttl_mm.gauges',
    'ttl_mm.engine',
    'ttl_mm.planning',
    'ttl_mm.export',
)
#: whose ``parts`` register classes for configs; mmselfsup's are for the archived package alone
TASKS = ('classification', 'detection', 'reid', 'segmentation')
INDEX, COMMANDS, API = 'docs/README', 'docs/reference/commands', 'docs/reference/python'
log = logging.getLogger(__name__)


def navigation(index: str) -> str:
    r"""Hidden tables of contents, one per bold row of the index, with the pages of its rows.

    >>> print(navigation('| **Use** | |\n| [a](a.md), [b](../b/README.md) | how? |'))
    ```{toctree}
    :hidden:
    :caption: Use
    a
    ../b/README
    ```
    """
    parts: list[list[str]] = []
    for row in index.splitlines():
        if heading := re.match(r'\| \*\*(.+?)\*\* \|', row):
            parts.append(['```{toctree}', ':hidden:', f':caption: {heading[1]}'])
        elif parts and row.startswith('| '):
            parts[-1] += re.findall(r'\]\(([^)#]+)\.(?:md|ipynb)\)', row.split(' | ')[0])
    return '\n'.join('\n'.join([*part, '```']) for part in parts)


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands of a parser, by name."""
    found = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}


def command_page(parser: argparse.ArgumentParser, level: int = 2) -> str:
    """A section for each command: what it does, how it is called, and its options."""
    sections = []
    for command in subcommands(parser).values():
        sections += [
            f'{"#" * level} {command.prog}',
            command.description or '',
            f'```text\n{command.format_usage().strip()}\n```',
            option_table(command),
            command_page(command, level + 1),
        ]
    return '\n\n'.join(filter(None, sections))


def option_table(command: argparse.ArgumentParser) -> str:
    """One row per argument that the help shows."""
    rows = []
    for action in command._actions:
        is_shown = action.help != argparse.SUPPRESS and action.dest != 'help'
        if is_shown and not isinstance(action, argparse._SubParsersAction):
            name = ', '.join(action.option_strings) or str(action.metavar or action.dest)
            if not action.help:
                log.warning('%s: %s has no help', command.prog, name)
            help_text = command._get_formatter()._expand_help(action) if action.help else ''
            text = re.sub(r'([|<>*_])', r'\\\1', help_text)
            rows.append(f'| `{name}` | {text} |')
    return '\n'.join(['| argument | meaning |', '|---|---|', *rows]) if rows else ''


def api_page() -> str:
    """Every public package with all that it offers, then what the configs of tasks name."""
    sections = [f'## {name}\n\n```{{eval-rst}}\n.. automodule:: {name}\n```' for name in PUBLIC]
    for task in TASKS:
        sections += [
            f'## Config keys of {task}',
            f'With `ttl_mm.tasks.{task}.parts` in `custom_imports`.',
            *(f'```{{eval-rst}}\n.. autoclass:: {name}\n```' for name in task_classes(task)),
        ]
    return '\n\n'.join(sections)


def task_classes(task: str) -> list[str]:
    """Public classes of the modules that register parts of a task."""
    parts = importlib.import_module(f'ttl_mm.tasks.{task}.parts')
    values = [getattr(parts, name) for name in parts.__all__]
    names = [value.__name__ if inspect.ismodule(value) else value.__module__ for value in values]
    return [
        f'{name}.{cls.__name__}'
        for name in names
        for cls in vars(importlib.import_module(name)).values()
        if inspect.isclass(cls) and cls.__module__ == name and not cls.__name__.startswith('_')
    ]


def undocumented(packages: tuple[str, ...] = PUBLIC) -> list[str]:
    """Public functions and classes without a docstring of their own."""
    found = []
    for name in packages:
        package = importlib.import_module(name)
        for public in package.__all__:
            value = getattr(package, public)
            if (inspect.isclass(value) or inspect.isfunction(value)) and not value.__doc__:
                found.append(f'{name}.{public}')
    return found


def add_parts(app: Sphinx, name: str, source: list[str]) -> None:
    """Add to a page what is made from the code."""
    if name == INDEX:
        source[0] += '\n\n' + navigation(source[0])
    elif name == COMMANDS:
        source[0] += '\n\n' + command_page(build_parser())
    elif name == API:
        source[0] += '\n\n' + api_page()


def check_docstrings(app: Sphinx) -> None:
    """A public name without a docstring is a warning, which ``make docs`` makes an error."""
    for name in undocumented():
        log.warning('%s has no docstring', name)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect('source-read', add_parts)
    app.connect('builder-inited', check_docstrings)
    return {'parallel_read_safe': True}
