"""``ttl plan``: a schedule for the data and the hardware at hand, as a config."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from ttl_mm.arguments import input_folder, integer, number, seconds
from ttl_mm.cli._options import FLAG, add_out, add_overwrite, add_renamed, add_shared
from ttl_mm.errors import UserError, counted
from ttl_mm.outputs import claim_file

ASSUMED_CLASSES = 100
HELP = 'propose batch, accumulation, learning rate, schedule and k, and write a config'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add('--images', type=integer(1), metavar='N', help='number of images, without --data')
    add(
        '--classes',
        type=integer(1),
        metavar='N',
        help='estimate of the number of classes (default: 100)',
    )
    add_shared(
        parser,
        '--data',
        type=input_folder,
        help='images to count and train on, in folders of any depth',
    )
    add('--labeled', **FLAG, help='the first-level folders of --data are classes')
    add(
        '--gpus',
        type=integer(1),
        default=1,
        metavar='N',
        help='GPUs, or CPU processes (default: 1)',
    )
    add('--memory', type=number(0, above=True), metavar='GB', help='memory of one GPU')
    add('--epochs', type=integer(1), metavar='N', help="length of the run (default: the recipe's)")
    add_shared(parser, '--config', help='recipe to adapt (default: the main one)')
    text = "network, as `ttl backbones` lists it (default: the recipe's)"
    add('--backbone', metavar='NAME', help=text)
    text = 'rank of the deputy (default: the smallest safe one, at most 10)'
    add('--k', type=integer(1), metavar='RANK', help=text)
    add_shared(parser, '--risk')
    text = (
        'train the plan and variants of its rate, view size and k for TIME (as 5m) in all, and '
        'write the one that a judge without labels finds clearly better; needs --data'
    )
    add('--try', type=seconds, metavar='TIME', dest='trial', help=text)
    add_out(parser, 'FILE', 'the config', 'planned.py')
    add_overwrite(parser)
    add_renamed(parser, '--labelled', '--labeled')
    add_renamed(parser, '--recipe', '--config')


def run(args: argparse.Namespace) -> None:
    from ttl_mm import planning
    from ttl_mm.engine.runner.processes import start_line
    from ttl_mm.models.backbones import find_backbone

    recipe_path = args.config or planning.default_recipe()
    recipe = planning.read_recipe(recipe_path)
    if args.backbone is not None:
        recipe = planning.with_rate_of(recipe, find_backbone(args.backbone).norm)
    images, classes, shares = _count(args)
    claim_file(args.out, args.overwrite, recipe_path)
    largest = None
    if args.memory is not None:
        largest = planning.measure_recipe(recipe_path, args.backbone).largest_batch(args.memory)
    plan = planning.make_plan(
        images, classes, args.gpus, largest, recipe, args.epochs, args.k, args.risk, shares
    )
    origin = f'Planned by ttl plan from {Path(recipe_path).name}.'
    setting = planning.Setting('as planned', plan)
    if args.trial is not None:
        setting, found = _try(args, plan, recipe_path)
        plan, origin = setting.plan, f'{origin} {found}'
    path = _write(args, recipe_path, setting, args.out, origin, args.overwrite)
    if largest is not None:
        print(f'{args.memory:g} GB suffice for a batch of {counted(largest, "image")}.\n')
    rows = [
        [e.quantity, e.paper, e.plan, '=' if e.holds else f'differs: {e.consequence}']
        for e in planning.equivalences(plan)
    ]
    print(table(['quantity', 'paper', 'plan', ''], rows))
    print(f'\nBoth sides of k ({plan.negatives} negatives, about {classes} classes)')
    rows = [
        [str(c.k), f'{c.risk:.1e}', str(c.poles), 'chosen' if c.k == plan.k else '']
        for c in planning.rank_choices(plan)
    ]
    print(table(['rank', 'chance of a false deputy', 'poles that satisfy it', ''], rows))
    for sentence in planning.cautions(plan):
        print(f'\n! {sentence}')
    print(f'\n{path}\nStart: {start_line(path, args.gpus)}')


def _write(
    args: argparse.Namespace, recipe, setting, out, origin: str = 'On trial.', overwrite=False
) -> Path:
    from ttl_mm import planning

    return planning.write_config(
        setting.plan,
        recipe,
        out,
        args.data,
        args.labeled,
        origin,
        overwrite,
        args.backbone,
        setting.scale,
    )


def _try(args: argparse.Namespace, plan, recipe) -> tuple:
    """The setting to write, and how it was found; prints the table of all."""
    from ttl_mm import planning

    if args.data is None:
        raise UserError('--try trains on your images: give their folder with --data.')
    tried = planning.try_settings(
        planning.settings_to_try(plan, recipe, free_k=args.k is None),
        lambda setting, path: _write(args, recipe, setting, path),
        args.trial,
        args.gpus,
    )
    best = planning.choose(tried)
    rows = [
        [
            t.setting.name,
            f'{t.steps}',
            f'{t.kept:.1%} ± {t.error:.1%}',
            'chosen' if t is best else '',
        ]
        for t in tried
    ]
    print(table(['setting', 'steps', 'neighbors kept under views', ''], rows) + '\n')
    if best is tried[0]:
        print('No other setting is better than the plan by more than the noise.\n')
    return best.setting, f'Of {len(tried)} settings on trial, chosen: {best.setting.name}.'


def _count(args: argparse.Namespace) -> tuple[int, int, list[float] | None]:
    """Images, classes and, from labeled folders, the shares of the classes."""
    images, classes, shares = args.images, args.classes, None
    if args.data is not None:
        import numpy as np

        from ttl_mm.datasets.image_folder import ImageFolder

        folder = ImageFolder(args.data, with_label=args.labeled)
        images = images or len(folder)
        if args.labeled and classes is None:
            classes = len(folder.metainfo['classes'])
            counts = np.bincount(np.asarray(folder.labels), minlength=classes)
            shares = (counts / len(folder)).tolist()
    if images is None:
        raise UserError('the number of images is missing: give --images or --data.')
    if classes is None:
        print(
            f'! The number of classes is not known, {ASSUMED_CLASSES} are assumed: k follows from '
            'it. Give an estimate with --classes, or --labeled if the folders are classes.\n'
        )
    return images, classes or ASSUMED_CLASSES, shares


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text; all but the first and last are right-aligned."""
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return '\n'.join(
        '  '.join(
            cell.ljust(width) if i in (0, len(widths) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )
