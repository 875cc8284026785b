"""``ttl reid``: person re-identification data, checked or made up."""

from argparse import ArgumentParser, Namespace

from ttl_mm.errors import UserError

NAME = 'reid'
HELP = 're-identification data: check it before a run, or make a small set to try things with'


def add_arguments(parser: ArgumentParser) -> None:
    """Add ``check`` and ``make``."""
    jobs = parser.add_subparsers(dest='job', required=True)
    check = jobs.add_parser('check', help='counts, malformed names, absent files, split leaks')
    check.add_argument('root', help='SYSU-30k, Market-1501, or a folder with query and gallery')
    check.add_argument(
        '--files',
        type=int,
        default=10_000,
        metavar='N',
        help='look for N of the listed training images on disk (default 10000; 0 for all)',
    )
    make = jobs.add_parser('make', help='draw a small synthetic set in the same layout')
    make.add_argument('root', help='a folder to create')
    make.add_argument('--layout', choices=['sysu', 'market'], default='sysu')
    make.add_argument('--train-people', type=int, default=8, metavar='N')
    make.add_argument('--images-each', type=int, default=6, metavar='N')
    make.add_argument('--test-people', type=int, default=6, metavar='N')
    make.add_argument('--distractors', type=int, default=20, metavar='N')
    make.add_argument('--seed', type=int, default=0)


def run(args: Namespace) -> None:
    """Check, or make, the data in ``args.root``."""
    if args.job == 'check':
        check(args.root, args.files or None)
    else:
        make(args)


def check(root: str, files: int | None) -> None:
    """Print the report; raise if the data cannot be used."""
    from ttl_mm.tasks.reid.check import check_reid

    report = check_reid(root, files)
    print(report)
    if not report.usable:
        raise UserError(f'{root} is not fit for use: mend the errors above.')


def make(args: Namespace) -> None:
    """Draw a set, never over files that are there."""
    from ttl_mm.tasks.reid.synthetic import make_split

    options = 'layout', 'train_people', 'images_each', 'test_people', 'distractors', 'seed'
    make_split(args.root, **{name: getattr(args, name) for name in options})
    print(f'{args.root}: made; look at it with `ttl reid check {args.root}`')
