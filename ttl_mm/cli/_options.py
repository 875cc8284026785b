"""Options that several commands share, and the old names of options that were renamed."""

import argparse
from typing import Any

from ttl_mm.arguments import (
    device,
    images,
    input_file,
    integer,
    number,
    output_file,
    output_folder,
)

SHARED: dict[str, dict] = {
    '--batch-size': {'type': integer(1), 'metavar': 'N'},
    '--config': {'type': input_file, 'metavar': 'FILE'},
    '--data': {'type': images, 'metavar': 'DIR'},
    '--device': {
        'type': device,
        'help': 'such as cuda:1 or cpu (default: a GPU if there is one)',
    },
    '--risk': {
        'type': number(0, 1, above=True),
        'default': 1e-3,
        'help': 'bound on the chance of a false deputy (default: 0.001)',
    },
    '--size': {
        'type': integer(8, 8192),
        'metavar': 'PIXELS',
        'help': 'edge of the square input (default: 224; 32 for small networks)',
    },
    '--workers': {
        'type': integer(0, 512),
        'default': 2,
        'metavar': 'N',
        'help': 'processes that load images (default: 2)',
    },
}
FLAG: dict[str, Any] = {'action': 'store_true'}
NUMBERS: dict[str, Any] = {'type': integer(1), 'nargs': '+', 'metavar': 'N'}


def add_shared(parser: argparse.ArgumentParser, option: str, **own) -> None:
    """Add one of :data:`SHARED`; ``own`` is what this command says about it."""
    parser.add_argument(option, **{**SHARED[option], **own})


def add_out(parser: argparse.ArgumentParser, kind: str, content: str, default: str) -> None:
    """Add ``--out``: a 'DIR' for a command that writes several files, a 'FILE' for one file.

    ``default`` is its default value, or in words what it is if it has a space.
    """
    value = None if ' ' in default else default
    text = f'{"folder" if kind == "DIR" else "file"} for {content} (default: {default})'
    check = output_folder if kind == 'DIR' else output_file
    parser.add_argument('--out', type=check, metavar=kind, default=value, help=text)


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    """Add ``--overwrite``, for a command that replaces nothing without it."""
    text = 'replace files that are there and that this command did not write'
    parser.add_argument('--overwrite', **FLAG, help=text)


class _Renamed(argparse.Action):
    def __call__(self, parser, namespace, values, option_string=None):
        parser.error(f'{option_string} is now {self.const}')


def add_renamed(parser: argparse.ArgumentParser, old: str, new: str) -> None:
    """Let the old name of an option end the command with the new one, and exit code 2."""
    hidden: dict[str, Any] = dict.fromkeys(('dest', 'default', 'help'), argparse.SUPPRESS)
    parser.add_argument(old, action=_Renamed, nargs='?', const=new, **hidden)


def add_speed(parser: argparse.ArgumentParser) -> None:
    """Add the options of training that change its speed and memory and not its meaning."""
    parser.add_argument(
        '--amp',
        nargs='?',
        choices=['fp16', 'bf16', 'auto', 'off'],
        const='auto',
        help='mixed precision: bf16 where the device has it, else fp16 (default: as in the config)',
    )
    text = 'compile the networks with torch.compile'
    parser.add_argument('--compile', **FLAG, help=text)
    text = 'compute activations again in the backward pass: less memory, more time'
    parser.add_argument('--checkpoint-activations', **FLAG, help=text)
