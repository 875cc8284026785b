"""Options that the commands share which train from given weights, or use what was trained."""

from argparse import ArgumentParser
from typing import Any

from ttl_mm.arguments import (
    device,
    input_path,
    integer,
    number,
    output_file,
    output_folder,
    weights,
)

Settings = dict[str, dict[str, Any]]
WORKERS = 'processes that load images (default: 2)'
TRAINING: Settings = {
    'weights': {'type': weights, 'metavar': 'CHECKPOINT', 'required': True},
    'no_baseline': {'action': 'store_true', 'help': 'do not train from random weights, too'},
    'epochs': {'type': integer(1), 'metavar': 'N'},
    'batch_size': {'type': integer(1), 'metavar': 'N'},
    'rate': {'type': number(0, above=True), 'metavar': 'R'},
    'size': {'type': integer(32, 4096), 'metavar': 'PIXELS'},
    'workers': {'type': integer(0, 512), 'default': 2, 'metavar': 'N', 'help': WORKERS},
    'device': {'type': device, 'help': 'where to test, such as cuda:1 or cpu'},
    'out': {'type': output_folder, 'metavar': 'DIR'},
    'config_out': {'type': output_file, 'metavar': 'FILE'},
}
USING: Settings = {
    'images': {'type': input_path, 'nargs': '+', 'metavar': 'IMAGES'},
    'weights': {'type': weights, 'metavar': 'FILE', 'required': True},
    'out': {'type': output_folder, 'metavar': 'DIR'},
    'pictures': {'type': integer(0), 'default': 50, 'metavar': 'N'},
    'device': {'type': device, 'help': 'such as cuda:1 or cpu (default: a GPU if there is one)'},
    'overwrite': {'action': 'store_true', 'help': 'replace what others wrote into the folder'},
}


def add_training(parser: ArgumentParser, data: str, **own: str | dict[str, Any]) -> None:
    """Add what a command that trains takes; ``own`` has its help, or more, by name."""
    folder = f'folder for everything (default: one below work_dirs, named after {data})'
    config = 'write the config for tools/train.py instead of training'
    _add(parser, TRAINING, {'out': folder, 'config_out': config, **own})


def add_use(parser: ArgumentParser, **own: str | dict[str, Any]) -> None:
    """Add what a command takes that uses what was trained."""
    images, pictures = 'folders of any depth, or lists of files', 'images to draw (default: 50)'
    _add(parser, USING, {'images': images, 'pictures': pictures, **own})


def _add(parser: ArgumentParser, shared: Settings, own: dict[str, Any]) -> None:
    for name, settings in shared.items():
        mine = own.get(name, {})
        words = {'help': mine} if isinstance(mine, str) else mine
        option = name if name == 'images' else f'--{name.replace("_", "-")}'
        parser.add_argument(option, **{**settings, **words})
