"""``ttl train``: from a folder of images to a backbone."""

import argparse
import os
import time

from ttl_mm.arguments import images, integer, number, output_file, weights
from ttl_mm.cli._options import FLAG, add_out, add_shared, add_speed
from ttl_mm.cli.export import FORMATS
from ttl_mm.compat.torch_environment import set_torch_environment

HELP = 'pre-train a backbone on images without labels: plan, train, report'
BEGUN = time.monotonic()  # of the command; --hours counts from here


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = 'a folder of any depth, a text file with one path a line, or several of these'
    add('images', nargs='+', metavar='IMAGES', help=text)
    add_out(parser, 'DIR', 'everything that is written', 'one below work_dirs, named after IMAGES')
    text = 'resnet18 (default on a CPU), resnet50 (on a GPU) ..., or as `ttl backbones` lists them'
    add('--backbone', metavar='NAME', help=text)
    add_shared(parser, '--size', help='edge of the views (default: 96 on a CPU, 224 on a GPU)')
    length = parser.add_mutually_exclusive_group()
    length.add_argument(
        '--epochs', type=integer(1), metavar='N', help='length of the run (default: 100)'
    )
    text = 'let the whole command take so long: fits steps and size'
    length.add_argument('--hours', type=number(0, above=True), metavar='H', help=text)
    add(
        '--gpus',
        type=integer(1),
        metavar='N',
        help='GPUs (default: all), or processes without a GPU',
    )
    text = 'folder of classes to measure kNN on while training; it is never trained on'
    add('--labels', type=images, metavar='DIR', help=text)
    text = 'end the run when N judgments without labels in a row were not its best'
    add('--patience', type=integer(1), metavar='N', help=text)
    text = 'weights of the backbone to start from, in any layout'
    add('--init', type=weights, metavar='FILE', help=text)
    add_speed(parser)
    add('--export', choices=FORMATS, metavar='LAYOUT', help='write this layout too, in the end')
    add('--dry-run', **FLAG, help='stop after the plan')
    text = 'write the plan as a config for tools/train.py instead of training'
    add('--config-out', type=output_file, metavar='FILE', help=text)


def run(args: argparse.Namespace) -> None:
    set_torch_environment(os.environ)
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.pretraining import pretrain

    options = {key: value for key, value in vars(args).items() if key not in ('command', 'run')}
    pretrain(**options, begun=BEGUN)
