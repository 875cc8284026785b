"""``ttl finetune``: a classifier on labeled folders, from pre-trained weights."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from ttl_mm.arguments import input_path, integer, number, options_of
from ttl_mm.finetuning.options import add_training

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
    edge = 'edge of the square input (default: that of pre-training, or 224)'
    add_training(
        parser, 'LABELED',
        weights='the backbone to start from, in any layout, or ttl_mm://NAME',
        epochs='length of a run at most (default: 20, more where the images are few)',
        batch_size={'type': integer(2), 'help': 'images of a step (default: 64)'},
        rate='learning rate of the backbone (default: 0.01)',
        size={'type': integer(8, 8192), 'help': edge},
    )  # fmt: skip
    parser.set_defaults(batch_size=64)
    text = 'how many times to train (default: 1)'
    add('--seeds', type=integer(1, 100), default=1, metavar='N', help=text)
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


def run(args: Namespace) -> None:
    """Train, test, write table and page."""
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.tasks.classification.job import finetune

    options = options_of(args)
    del options['all']  # the default
    baseline = not options.pop('no_baseline')
    finetune(**options, baseline=baseline)
