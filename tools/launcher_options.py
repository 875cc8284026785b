"""What tools/train.py and tools/test.py share; not a tool of its own."""

import argparse
import os

# idle OpenMP threads that spin make a CPU run many times slower on a shared machine
os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')

from mmengine.config import DictAction


def parse(parser: argparse.ArgumentParser, example: str) -> dict:
    """Add the common options and parse: the arguments of ``train`` or ``run_test``."""
    parser.add_argument('--work-dir', help='for logs and checkpoints; work_dirs/CONFIG by default')
    parser.add_argument('--launcher', choices=['none', 'pytorch', 'slurm'], default='none')
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        metavar='KEY=VALUE',
        help=f'change the config, as in {example}; +KEY=VALUE adds a new key',
    )
    parser.add_argument('--local-rank', '--local_rank', type=int, default=0, help='set by torchrun')
    arguments = vars(parser.parse_args())
    os.environ.setdefault('LOCAL_RANK', str(arguments.pop('local_rank')))
    return arguments
