"""Options that several commands share, and the old names of options that were renamed."""

import argparse
from typing import Any

SHARED: dict[str, dict] = {
    '--batch-size': {'type': int, 'metavar': 'N'},
    '--config': {'metavar': 'FILE'},
    '--data': {'metavar': 'DIR'},
    '--risk': {
        'type': float,
        'default': 1e-3,
        'help': 'bound on the chance of a false deputy (default: 0.001)',
    },
    '--size': {
        'type': int,
        'metavar': 'PIXELS',
        'help': 'edge of the square input (default: 224; 32 for small networks)',
    },
}
FLAG: dict[str, Any] = {'action': 'store_true'}
NUMBERS: dict[str, Any] = {'type': int, 'nargs': '+', 'metavar': 'N'}


def add_shared(parser: argparse.ArgumentParser, option: str, **own) -> None:
    """Add one of :data:`SHARED`; ``own`` is what this command says about it."""
    parser.add_argument(option, **{**SHARED[option], **own})


def add_out(parser: argparse.ArgumentParser, kind: str, content: str, default: str) -> None:
    """Add ``--out``: a 'DIR' for a command that writes several files, a 'FILE' for one file.

    ``default`` is its default value, or in words what it is if it has a space.
    """
    value = None if ' ' in default else default
    text = f'{"folder" if kind == "DIR" else "file"} for {content} (default: {default})'
    parser.add_argument('--out', metavar=kind, default=value, help=text)


class _Renamed(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        parser.error(f'{option_string} is now {self.const}')


def add_renamed(parser: argparse.ArgumentParser, old: str, new: str) -> None:
    """Let the old name of an option end the command with the new one, and exit code 2."""
    hidden: dict[str, Any] = dict.fromkeys(('dest', 'default', 'help'), argparse.SUPPRESS)
    parser.add_argument(old, action=_Renamed, nargs='?', const=new, **hidden)
