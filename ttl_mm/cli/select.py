"""``ttl select``: images to label first, or to look at."""

import argparse

from ttl_mm import arguments
from ttl_mm.cli._images import add_overwrite, add_source, open_embedding
from ttl_mm.cli._options import FLAG, add_out

HELP = 'choose a diverse subset of images, or the odd ones, as a list'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_source(parser)
    add('--number', type=arguments.integer(1), required=True, metavar='N', help='how many images')
    add('--outliers', **FLAG, help='those that look like no others, instead of a diverse subset')
    text = 'how much to prefer images that have others like them (default: 0, not at all)'
    add('--density', type=arguments.number(0, 100), default=0.0, metavar='W', help=text)
    add('--seed', type=arguments.integer(0), default=0, metavar='N', help='of the first image')
    add_out(parser, 'FILE', 'the list, a path a line, which training takes', 'selection.txt')
    add_overwrite(parser)


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.datasets.name_list import write_name_list
    from ttl_mm.errors import printable
    from ttl_mm.explore.selection import diverse_subset, outliers
    from ttl_mm.outputs import claim_file

    out = claim_file(args.out, args.overwrite)
    cache = out.with_name(f'{out.name}.features')
    embedding = open_embedding(args, cache)
    if args.outliers:
        chosen = outliers(embedding.features, args.number)
    else:
        chosen = diverse_subset(embedding.features, args.number, args.density, args.seed)
    write_name_list(out, embedding.rows(chosen).files())
    print(f'{len(chosen)} of {len(embedding):,} images: {printable(str(out))}')
    if cache.exists():
        print(f'The features are kept for the next time: {printable(str(cache))}')
