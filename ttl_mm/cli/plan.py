"""``ttl plan``: a schedule for the data and the hardware at hand, as a config."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ttl_mm.errors import UserError

HELP = 'propose batch, accumulation, learning rate, schedule and k, and write a config'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--images', type=int, help='number of images; counted with --data')
    parser.add_argument('--classes', type=int, help='estimate of the number of classes')
    parser.add_argument('--data', metavar='DIR', help='folder of images, nested at will')
    parser.add_argument(
        '--labelled', action='store_true', help='first-level folders of --data are classes'
    )
    parser.add_argument('--gpus', type=int, default=1, help='GPUs, or CPU processes (default: 1)')
    parser.add_argument('--memory', type=float, metavar='GB', help='memory of one GPU')
    parser.add_argument('--epochs', type=int, help="length of the run (default: the recipe's)")
    parser.add_argument('--recipe', help='config to adapt (default: the main recipe)')
    parser.add_argument(
        '--k', type=int, help='rank of the deputy (default: smallest safe one, at most 10)'
    )
    parser.add_argument(
        '--risk',
        type=float,
        default=1e-3,
        help='bound on the chance of a false deputy (default: 0.001)',
    )
    parser.add_argument('--out', default='planned.py', help='config to write (default: planned.py)')


def run(args: argparse.Namespace) -> None:
    from ttl_mm import planning

    recipe_path = args.recipe or planning.default_recipe()
    recipe = planning.read_recipe(recipe_path)
    images, classes, shares = _count(args)
    largest = None
    if args.memory is not None:
        largest = planning.measure_recipe(recipe_path).largest_batch(args.memory)
    plan = planning.make_plan(
        images, classes, args.gpus, largest, recipe, args.epochs, args.k, args.risk, shares
    )
    path = planning.write_config(
        plan,
        recipe_path,
        args.out,
        data_root=args.data,
        with_label=args.labelled,
        origin=f'Planned by ttl plan from {Path(recipe_path).name}.',
    )
    if largest is not None:
        print(f'{largest} images fit into {args.memory:g} GB.\n')
    print(
        table(
            ['quantity', 'paper', 'plan', ''],
            [
                [e.quantity, e.paper, e.plan, '=' if e.holds else f'differs: {e.consequence}']
                for e in planning.equivalences(plan)
            ],
        )
    )
    print(f'\nBoth sides of k ({plan.negatives} negatives, about {classes} classes)')
    print(
        table(
            ['rank', 'chance of a false deputy', 'poles that satisfy it', ''],
            [
                [str(c.k), f'{c.risk:.1e}', str(c.poles), 'chosen' if c.k == plan.k else '']
                for c in planning.rank_choices(plan)
            ],
        )
    )
    for sentence in planning.cautions(plan):
        print(f'\n! {sentence}')
    start = 'python tools/train.py' if args.gpus == 1 else 'tools/dist_train.sh'
    print(f'\n{path}\nStart: {start} {path}' + (f' {args.gpus}' if args.gpus > 1 else ''))


def _count(args: argparse.Namespace) -> tuple[int, int, list[float] | None]:
    """Images, classes and, from labelled folders, the shares of the classes."""
    images, classes, shares = args.images, args.classes, None
    if args.data is not None:
        from ttl_mm.datasets.image_folder import ImageFolder

        folder = ImageFolder(args.data, with_label=args.labelled)
        images = images or len(folder)
        if args.labelled and classes is None:
            classes = len(folder.metainfo['classes'])
            counts = [0] * classes
            for label in folder.labels.tolist():
                counts[label] += 1
            shares = [count / len(folder) for count in counts]
    if images is None:
        raise UserError('the number of images is missing: give --images or --data.')
    if classes is None:
        raise UserError(
            'the number of classes is missing: give an estimate with --classes, or --labelled if '
            'the folders of --data are classes.'
        )
    return images, classes, shares


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text; all but the first and last are right-aligned."""
    lines = [header, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return '\n'.join(
        '  '.join(
            cell.ljust(width) if i in (0, len(widths) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )
