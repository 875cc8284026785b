"""``ttl duplicates``: copies among images, and leaks between two folders."""

import argparse

from ttl_mm import arguments
from ttl_mm.cli._images import add_overwrite, add_weights
from ttl_mm.cli._options import add_out

HELP = 'find copies among images, and leaks between two folders'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = 'a folder of any depth, a text file with one path a line, or several of these'
    add('source', nargs='+', metavar='IMAGES', type=arguments.images, help=text)
    text = 'look for images of this folder or list among IMAGES too, such as those to test on'
    add('--against', metavar='IMAGES', type=arguments.images, help=text)
    text = 'cosine from which images are near duplicates (default: found with altered copies)'
    add('--threshold', type=arguments.number(-1, 1), metavar='COS', help=text)
    add_weights(parser)
    content = 'the page, duplicates.csv and clean.txt, a list without copies'
    add_out(parser, 'DIR', content, 'duplicates')
    add_overwrite(parser)


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.errors import UserError, printable
    from ttl_mm.explore.find_duplicates import find_duplicates
    from ttl_mm.outputs import claimed_folder
    from ttl_mm.planning.image_sources import find_images

    if not args.weights and (args.config or args.size or args.threshold is not None):
        raise UserError('--config, --size and --threshold are of near duplicates: add --weights.')
    found = find_images(args.source)
    against = find_images([args.against]) if args.against else None
    options = {'config': args.config, 'size': args.size, 'batch_size': args.batch_size}
    options |= {'num_workers': args.workers, 'device': args.device}
    with claimed_folder(args.out, 'ttl duplicates', args.overwrite) as out:
        search = (found, against, args.weights, args.threshold, out, options)
        for line in find_duplicates(*search):
            print(printable(line))
