"""Train by a config: ``python tools/train.py CONFIG [--resume] [--work-dir DIR] ...``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import launcher_options
from ttl_mm.arguments import Parser, input_file, text
from ttl_mm.cli._options import add_speed


def parse_args() -> dict:
    parser = Parser(description=__doc__)
    parser.add_argument('config', type=input_file, help='a Python config')
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        type=text,
        metavar='auto|PATH',
        help='continue from the newest whole checkpoint in the work dir, or from a file',
    )
    add_speed(parser)
    trackers = ('wandb', 'mlflow')
    parser.add_argument('--tracker', choices=trackers, help='log there too, beside TensorBoard')
    parser.add_argument('--plain', action='store_true', help="mmengine's console: the whole log")
    return launcher_options.parse(parser, example='train_cfg.max_epochs=20')


if __name__ == '__main__':
    sys.exit(launcher_options.run('train', parse_args()))
