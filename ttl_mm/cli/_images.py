"""What the commands that look at images share: a file of embeddings, or images and weights."""

import argparse
from pathlib import Path
from typing import Any

from ttl_mm import arguments
from ttl_mm.cli._options import FLAG, add_shared

SOURCE = 'a file of `ttl embed`; or folders and lists of images, with --weights'


def add_source(parser: argparse.ArgumentParser, help: str = SOURCE) -> None:
    """Add the images, the weights and what a forward pass needs."""
    add = parser.add_argument
    add('source', nargs='+', metavar='FILE_OR_IMAGES', type=arguments.input_path, help=help)
    add_weights(parser)


def add_weights(parser: argparse.ArgumentParser, required: bool = False) -> None:
    """Add the weights and what a forward pass needs."""
    text = 'a checkpoint in any layout, or ttl_mm://NAME'
    options: dict[str, Any] = {'metavar': 'FILE', 'required': required, 'help': text}
    parser.add_argument('--weights', type=arguments.weights, **options)
    add_extraction(parser)


def add_extraction(parser: argparse.ArgumentParser) -> None:
    """Add what a forward pass over images needs."""
    add = parser.add_argument
    add_shared(parser, '--config', help='config of the model, if its shapes do not determine it')
    add_shared(parser, '--size')
    add_shared(parser, '--batch-size', default=128, help='images at once (default: 128)')
    text = 'processes that load images (default: 2)'
    add('--workers', type=arguments.integer(0, 1024), default=2, metavar='N', help=text)
    text = 'such as cuda:1 or cpu (default: a GPU if there is one)'
    add('--device', type=arguments.device, help=text)


def add_overwrite(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--overwrite', **FLAG, help='replace what is in --out')


def open_embedding(args: argparse.Namespace, cache: Path) -> Any:
    """The embedding that the arguments name; that of images is kept in ``cache``."""
    from mmengine.dist import is_main_process

    from ttl_mm.errors import UserError
    from ttl_mm.explore.embedding import embed_images, read_embedding
    from ttl_mm.planning.image_sources import find_images

    if not args.weights:
        if len(args.source) > 1 or Path(args.source[0]).is_dir():
            raise UserError(f'{args.source[0]} is a folder of images: name --weights FILE as well.')
        return read_embedding(args.source[0], getattr(args, 'data', None) or '')
    found = find_images(args.source)
    embedding = embed_images(
        found, args.weights, cache, args.config, args.size, args.batch_size, args.workers,
        args.device, print_progress,
    )  # fmt: skip
    if embedding.broken and is_main_process():
        some = ', '.join(embedding.broken[:3])
        print(f'{len(embedding.broken)} images cannot be read and are left out: {some}')
    return embedding


def print_progress(done: int, total: int) -> None:
    """One line that is overwritten, then left."""
    print(f'\r{done:,} of {total:,} images', end='\n' if done == total else '', flush=True)
