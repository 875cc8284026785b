"""``ttl reid``: evaluate a checkpoint by re-identification; check the data, or make a small set."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace

from ttl_mm.arguments import (
    device,
    input_file,
    input_folder,
    integer,
    options_of,
    output_folder,
    weights,
)

NAME = 'reid'
HELP = 'person re-identification: evaluate a checkpoint, check the data, make a small set'
EVAL = 'rank-1, rank-5, rank-10 and mAP of frozen features, and a picture of the best matches'
CHECK = 'check the data before a run: counts, file names, missing files, identities in both splits'
MAKE = 'draw a small synthetic set in the layout of SYSU-30k or Market-1501'
DATA = 'SYSU-30k, Market-1501, or a folder with query and gallery'


def add_arguments(parser: ArgumentParser) -> None:
    """Add ``eval``, ``check`` and ``make``."""
    jobs = parser.add_subparsers(dest='job', required=True, metavar='JOB')
    evaluate = jobs.add_parser('eval', help=EVAL, description=EVAL)
    evaluate.set_defaults(work=_evaluate)
    add = evaluate.add_argument
    features = 'a checkpoint (with --data), or reid.safetensors of an earlier evaluation'
    add('source', type=weights, metavar='CHECKPOINT_OR_FEATURES', help=features)
    add('--data', type=input_folder, metavar='DIR', help=DATA)
    what = 'folder for features, figures and the picture'
    add('--out', type=output_folder, metavar='DIR', help=what)
    replaced = 'replace files that are there and that this command did not write'
    add('--overwrite', action='store_true', help=replaced)
    flip = 'combine image and mirror image as the SYSU-30k release does'
    add('--reference-flip', action='store_true', help=flip)
    shown = 'queries to show in matches.png, counted from 0 (default: eight, evenly spread)'
    add('--queries', type=integer(0), nargs='+', default=(), metavar='N', help=shown)
    add('--config', type=input_file, help='config of the model, if the shapes do not determine it')
    at_once = 'images at once (default: 100)'
    add('--batch-size', type=integer(1), default=100, metavar='N', help=at_once)
    what = 'processes that load images'
    add('--workers', type=integer(0, 512), default=2, metavar='N', help=what)
    add('--device', type=device, help='such as cuda:1 or cpu (default: a GPU if there is one)')

    check = jobs.add_parser('check', help=CHECK, description=CHECK)
    check.set_defaults(work=_check)
    check.add_argument('data', type=input_folder, metavar='DIR', help=DATA)
    files = 'listed training images to look for: a number, 0 for none, or all (default: 10000)'
    check.add_argument('--files', type=count_or_all, default=10_000, metavar='N', help=files)

    make = jobs.add_parser('make', help=MAKE, description=MAKE)
    make.set_defaults(work=_make)
    make.add_argument('root', type=output_folder, metavar='DIR', help='a folder to create')
    make.add_argument('--layout', choices=['sysu', 'market'], default='sysu', help='default: sysu')
    for option, number, what in (
        ('--train-people', 8, 'people in the training set'),
        ('--images-each', 6, 'training images of each'),
        ('--test-people', 6, 'people among queries and gallery'),
        ('--distractors', 20, 'gallery images of nobody'),
        ('--seed', 0, 'seed of all random choices'),
    ):
        text = f'{what} (default: {number})'
        make.add_argument(option, type=integer(0, 10**6), default=number, metavar='N', help=text)


def count_or_all(text: str) -> int | None:
    """'all' -> None, else a number of at least 0."""
    if text == 'all':
        return None
    if not text.isdecimal():
        raise ArgumentTypeError(f'{text!r} is neither a number nor "all"')
    return int(text)


def run(args: Namespace) -> None:
    """Run one of the three jobs."""
    args.work(**options_of(args))


def _evaluate(**options) -> None:
    from ttl_mm.tasks.reid.evaluate import evaluate_reid

    evaluate_reid(**options)


def _check(data: str, files: int | None) -> None:
    from ttl_mm.datasets.data_report import require_usable
    from ttl_mm.tasks.reid.check import check_reid

    report = check_reid(data, files)
    print(report)
    require_usable([report], data)


def _make(root: str, **options) -> None:
    from ttl_mm.tasks.reid.synthetic import make_split

    make_split(root, **options)
    print(f'{root}: created; check it with `ttl reid check {root}`')
