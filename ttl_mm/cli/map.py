"""``ttl map``: a page that shows images as points, near each other where they look alike."""

import argparse

from ttl_mm.cli._images import add_overwrite, add_source, open_embedding
from ttl_mm.cli._options import add_out
from ttl_mm.errors import counted

HELP = 'draw a map of images: a page with thumbnails, neighbors, lasso and search'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    text = 'umap (if installed), tsne or pca (default: the first that fits the number of images)'
    parser.add_argument('--method', choices=['umap', 'tsne', 'pca'], help=text)
    add_out(parser, 'DIR', 'the page and its thumbnails', 'map')
    add_overwrite(parser)


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.errors import printable
    from ttl_mm.explore.embedding import require_images
    from ttl_mm.explore.map_page import write_map
    from ttl_mm.explore.projection import project
    from ttl_mm.outputs import claimed_folder

    with claimed_folder(args.out, 'ttl map', args.overwrite) as out:
        embedding = open_embedding(args, out / 'embeddings.safetensors')
        require_images(embedding)
        points = project(embedding.features, args.method)
        title = f'{counted(len(embedding), "image")} of {embedding.root.name or args.source[0]}'
        page = write_map(embedding, points, out, title)
    print(printable(str(page.resolve())))
