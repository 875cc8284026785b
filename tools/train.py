"""Train by a config: ``python tools/train.py CONFIG [--resume] [--work-dir DIR] ...``."""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# idle OpenMP threads that spin make a CPU run many times slower on a shared machine
os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')

from mmengine.config import DictAction

from ttl_mm.engine.runner.launch import TRACKERS, exit_code, train


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='a Python config')
    parser.add_argument('--work-dir', help='for logs and checkpoints; work_dirs/CONFIG by default')
    parser.add_argument(
        '--resume',
        nargs='?',
        const='auto',
        metavar='auto|PATH',
        help='continue from the newest whole checkpoint in the work dir, or from a file',
    )
    parser.add_argument('--amp', action='store_true', help='mixed precision (needs a GPU)')
    parser.add_argument('--launcher', choices=['none', 'pytorch', 'slurm'], default='none')
    parser.add_argument('--tracker', choices=TRACKERS, help='log there too, beside TensorBoard')
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        metavar='KEY=VALUE',
        help='change the config, as in train_cfg.max_epochs=20; +KEY=VALUE adds a new key',
    )
    parser.add_argument('--local-rank', '--local_rank', type=int, default=0, help='set by torchrun')
    return parser.parse_args()


if __name__ == '__main__':
    arguments = vars(parse_args())
    os.environ.setdefault('LOCAL_RANK', str(arguments.pop('local_rank')))
    sys.exit(exit_code(lambda: train(**arguments)))
