"""Test a trained model: ``python tools/test.py CONFIG WEIGHTS [--work-dir DIR] ...``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import launcher_options
from ttl_mm.arguments import Parser, input_file, weights


def parse_args() -> dict:
    parser = Parser(description=__doc__)
    parser.add_argument('config', type=input_file, help='the config that the model was trained by')
    parser.add_argument('weights', type=weights, help='its checkpoint')
    return launcher_options.parse(parser, example='test_dataloader.batch_size=4')


if __name__ == '__main__':
    sys.exit(launcher_options.run('run_test', parse_args()))
