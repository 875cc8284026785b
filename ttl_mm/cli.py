"""The ``ttl`` command line: one subcommand per module of :mod:`ttl_mm.commands`.

A command module is light to import (heavy imports live inside ``run``) and has::

    HELP = 'one line'
    def add_arguments(parser): ...
    def run(args) -> int | None: ...
"""

import argparse
import pkgutil
import sys
from importlib import import_module

from ttl_mm import __version__, commands
from ttl_mm.errors import UserError


def build_parser() -> argparse.ArgumentParser:
    """Build the parser with every module in ``ttl_mm/commands`` as a subcommand."""
    parser = argparse.ArgumentParser(prog='ttl', description='Truncated-triplet pre-training.')
    parser.add_argument('--version', action='version', version=f'ttl_mm {__version__}')
    subparsers = parser.add_subparsers(dest='command', required=True, metavar='COMMAND')
    for module_info in pkgutil.iter_modules(commands.__path__):
        module = import_module(f'{commands.__name__}.{module_info.name}')
        # a trailing underscore keeps a Python keyword usable as a name: import_.py -> `ttl import`
        name = module_info.name.rstrip('_')
        subparser = subparsers.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; a :class:`UserError` becomes one line on stderr and exit code 2."""
    args = build_parser().parse_args(argv)
    try:
        return args.run(args) or 0
    except UserError as error:
        print(f'ttl {args.command}: {error}', file=sys.stderr)
        return 2
