"""Test a trained model: ``python tools/test.py CONFIG WEIGHTS [--work-dir DIR] ...``."""

import argparse
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
# idle OpenMP threads that spin make a CPU run many times slower on a shared machine
os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')

from mmengine.config import DictAction

from ttl_mm.engine.runner.launch import exit_code, run_test


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='the config that the model was trained by')
    parser.add_argument('weights', help='its checkpoint')
    parser.add_argument('--work-dir', help='for logs; work_dirs/CONFIG by default')
    parser.add_argument('--launcher', choices=['none', 'pytorch', 'slurm'], default='none')
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        metavar='KEY=VALUE',
        help='change the config, as in test_dataloader.batch_size=4; +KEY=VALUE adds a new key',
    )
    parser.add_argument('--local-rank', '--local_rank', type=int, default=0, help='set by torchrun')
    return parser.parse_args()


if __name__ == '__main__':
    arguments = vars(parse_args())
    os.environ.setdefault('LOCAL_RANK', str(arguments.pop('local_rank')))
    sys.exit(exit_code(lambda: run_test(**arguments)))
