"""Test a trained model: ``python tools/test.py CONFIG WEIGHTS [--work-dir DIR] ...``."""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import launcher_options
from ttl_mm.engine.runner.launch import exit_code, run_test


def parse_args() -> dict:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('config', help='the config that the model was trained by')
    parser.add_argument('weights', help='its checkpoint')
    return launcher_options.parse(parser, example='test_dataloader.batch_size=4')


if __name__ == '__main__':
    arguments = parse_args()
    sys.exit(exit_code(lambda: run_test(**arguments)))
