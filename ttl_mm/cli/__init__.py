"""The ``ttl`` command line: a subcommand per module of this package and per task.

A command module is light to import (heavy imports live inside ``run``) and has::

    HELP = 'one line'
    def add_arguments(parser): ...
    def run(args) -> int | None: ...

A task has its command in ``ttl_mm/tasks/TASK/command.py``, with ``NAME`` beside ``HELP``; one with
several has each in a module whose name ends with ``_command``. Modules that begin with an
underscore are no commands.
"""

import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

from ttl_mm import tasks
from ttl_mm.arguments import Parser
from ttl_mm.ending import run_command
from ttl_mm.errors import UserError
from ttl_mm.version import __version__

#: what was called otherwise in version 0.1
RENAMED = {'check_detection': 'detect check'}


def commands() -> Iterator[tuple[str, ModuleType]]:
    """Name and module of every subcommand, sorted by name."""
    found = {}
    for module_info in pkgutil.iter_modules(__path__):
        if not module_info.name.startswith('_'):
            # a trailing underscore keeps a Python keyword usable: import_.py -> `ttl import`
            name = module_info.name.rstrip('_')
            found[name] = import_module(f'{__name__}.{module_info.name}')
    for task in pkgutil.iter_modules(tasks.__path__):
        spec = find_spec(f'{tasks.__name__}.{task.name}')
        for part in pkgutil.iter_modules(spec.submodule_search_locations if spec else ()):
            if f'_{part.name}'.endswith('_command'):
                module = import_module(f'{tasks.__name__}.{task.name}.{part.name}')
                found[module.NAME] = module
    yield from sorted(found.items())


def build_parser() -> Parser:
    """The parser of ``ttl`` with every subcommand."""
    parser = Parser(prog='ttl', description='Truncated-triplet pre-training.')
    parser.add_argument('--version', action='version', version=f'ttl_mm {__version__}')
    subparsers = parser.add_subparsers(dest='command', required=True, metavar='COMMAND')
    for name, module in commands():
        subparser = subparsers.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; whatever ends it is one line on stderr (:mod:`ttl_mm.ending`)."""
    argv = sys.argv[1:] if argv is None else argv
    if argv and argv[0] in RENAMED:
        print(f'ttl {argv[0]}: this command is now `ttl {RENAMED[argv[0]]}`.', file=sys.stderr)
        return 2
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as end:
        if end.code != UserError.exit_code:
            raise  # of --help and --version
        return UserError.exit_code
    return run_command(lambda: args.run(args), f'ttl {args.command}')
