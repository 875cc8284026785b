"""``ttl finetune``: a classifier on labeled folders, from pre-trained weights."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from ttl_mm.arguments import (
    device,
    input_path,
    integer,
    number,
    output_file,
    output_folder,
    weights,
)

NAME = 'finetune'
HELP = 'train a classifier on labeled folders, from pre-trained and from random weights'


def share(value: str) -> float:
    """A type: a share such as 10% or 0.1.

    >>> share('10%')
    0.1
    """
    percent = value.endswith('%')
    try:
        found = number(0, 100 if percent else 1, above=True)(value.removesuffix('%'))
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f'{error}; write a share as 10% or 0.1') from None
    return found / 100 if percent else found


def add_arguments(parser: ArgumentParser) -> None:
    """Add data, weights and the choices of training."""
    add = parser.add_argument
    text = 'folder of classes, or of train and val (or test) with classes'
    add('labeled', type=input_path, metavar='LABELED', help=text)
    text = 'the backbone to start from, in any layout, or ttl_mm://NAME'
    add('--weights', type=weights, metavar='CHECKPOINT', required=True, help=text)
    trained = parser.add_mutually_exclusive_group()
    text = 'train the classifier alone, on a frozen backbone'
    trained.add_argument('--frozen', action='store_true', help=text)
    text = 'train the whole network (default)'
    trained.add_argument('--all', action='store_true', help=text)
    part = parser.add_mutually_exclusive_group()
    text = 'learn from a share of every class, such as 10%%, drawn for every seed'
    part.add_argument('--fraction', type=share, metavar='SHARE', help=text)
    text = 'learn from so many images of every class, drawn for every seed'
    part.add_argument('--per-class', type=integer(2), metavar='N', help=text)
    text = 'how many times to train (default: 1)'
    add('--seeds', type=integer(1, 100), default=1, metavar='N', help=text)
    text = 'do not train from random weights for comparison'
    add('--no-baseline', action='store_true', help=text)
    text = 'length of a run at most (default: 20, more where the images are few)'
    add('--epochs', type=integer(1), metavar='N', help=text)
    text = 'edge of the square input (default: that of pre-training, or 224)'
    add('--size', type=integer(8, 8192), metavar='PIXELS', help=text)
    text = 'images of a step (default: 64)'
    add('--batch-size', type=integer(2), metavar='N', help=text)
    text = 'learning rate of the backbone (default: 0.01)'
    add('--rate', type=number(0, above=True), metavar='R', help=text)
    text = 'processes that load images (default: 2)'
    add('--workers', type=integer(0, 512), default=2, metavar='N', help=text)
    add('--device', type=device, help='where to test, such as cuda:1 or cpu')
    text = 'folder for everything (default: one below work_dirs, named after LABELED)'
    add('--out', type=output_folder, metavar='DIR', help=text)
    text = 'write the config of a run for tools/train.py instead of training'
    add('--config-out', type=output_file, metavar='FILE', help=text)


def run(args: Namespace) -> None:
    """Train, test, write table and page."""
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.tasks.classification.job import finetune

    options = dict(vars(args))
    for name in ('command', 'run', 'all'):  # of the command line itself
        options.pop(name)
    baseline = not options.pop('no_baseline')
    finetune(**options, baseline=baseline)
