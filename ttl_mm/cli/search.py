"""``ttl search``: the images that look like a given one."""

import argparse
from pathlib import Path

from ttl_mm import arguments
from ttl_mm.cli._images import add_overwrite, add_weights
from ttl_mm.cli._options import add_out, add_shared
from ttl_mm.errors import counted

HELP = 'find the images nearest to a query image'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add('query', metavar='IMAGE', type=arguments.input_file, help='the image to look for')
    text = 'a file of `ttl embed`'
    add('--in', dest='source', metavar='FILE', type=arguments.input_file, required=True, help=text)
    add_shared(parser, '--data', type=arguments.input_folder, help='folder of the images of FILE')
    text = 'how many (default: 12)'
    add('--number', type=arguments.integer(1), default=12, metavar='N', help=text)
    add_weights(parser)
    add_out(parser, 'DIR', 'a page with pictures', 'none is written')
    add_overwrite(parser)


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.errors import printable
    from ttl_mm.explore.embedding import read_embedding, require_images
    from ttl_mm.explore.pages import Shown, write_groups_page
    from ttl_mm.explore.search import find_similar
    from ttl_mm.outputs import claimed_folder

    embedding = read_embedding(args.source, Path(args.data).resolve() if args.data else '')
    if args.out:
        require_images(embedding)
    found = find_similar(
        args.query, embedding, args.number, args.weights, args.config, args.size, args.device
    )
    for path, cosine in found:
        print(f'{cosine:.4f}  {printable(path)}')
    if args.out:
        group = [Shown(args.query, 'query', 'query')]
        for path, cosine in found:
            group.append(Shown(str(embedding.root / path), f'{cosine:.3f}', f'cosine {cosine:.4f}'))
        lead = f'Nearest to {Path(args.query).name} by cosine similarity: '
        lead += counted(len(found), 'image') + '.'
        framed = 'The image in a green frame is the query; the nearest image comes first.'
        with claimed_folder(args.out, 'ttl search', args.overwrite) as out:
            page = write_groups_page('Similar images', lead, [group], framed, out, 'ttl search')
        print(printable(str(page.resolve())))
