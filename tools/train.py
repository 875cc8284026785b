"""Train by a config: ``python tools/train.py CONFIG [--resume] [--work-dir DIR] ...``."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import launcher_options
from ttl_mm.engine.runner.launch import TRACKERS, exit_code, train


def parse_args() -> dict:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='a Python config')
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        metavar='auto|PATH',
        help='continue from the newest whole checkpoint in the work dir, or from a file',
    )
    parser.add_argument('--amp', action='store_true', help='mixed precision (needs a GPU)')
    parser.add_argument('--tracker', choices=TRACKERS, help='log there too, beside TensorBoard')
    return launcher_options.parse(parser, example='train_cfg.max_epochs=20')


if __name__ == '__main__':
    arguments = parse_args()
    sys.exit(exit_code(lambda: train(**arguments)))
