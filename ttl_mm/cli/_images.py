"""What the commands that look at images share: a file of embeddings, or images and weights."""

import argparse
from pathlib import Path
from typing import Any

from ttl_mm import arguments
from ttl_mm.cli._options import FLAG, add_shared
from ttl_mm.errors import counted

SOURCE = 'a file of `ttl embed`; a checkpoint, with --data; or images, with --weights'
DATA = 'folder of the images, for a file of `ttl embed` or a checkpoint'


def add_source(parser: argparse.ArgumentParser, help: str = SOURCE) -> None:
    """Add the images, the weights and what a forward pass needs."""
    add = parser.add_argument
    add('source', nargs='+', metavar='FILE_OR_CHECKPOINT', type=source, help=help)
    add_shared(parser, '--data', type=arguments.images, help=DATA)
    add_weights(parser)


def source(value: str) -> str:
    """A type: a file, a folder, or the name of published weights."""
    return value if '://' in value else arguments.input_path(value)


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
    """Add ``--overwrite``, for a command whose ``--out`` may hold an earlier result."""
    parser.add_argument('--overwrite', **FLAG, help='replace what is in --out')


def open_embedding(args: argparse.Namespace, cache: Path, replace: bool = True) -> Any:
    """The embedding that the arguments name; that of images is kept in ``cache``."""
    from mmengine.dist import is_main_process

    from ttl_mm.errors import printable
    from ttl_mm.evaluation.run import Progress
    from ttl_mm.explore.embedding import embed_images, read_embedding
    from ttl_mm.planning.image_sources import find_images

    data = getattr(args, 'data', None)
    images, weights = _images_and_weights(args.source, args.weights, data)
    if weights is None:
        return read_embedding(args.source[0], Path(data).resolve() if data else '')
    embedding = embed_images(
        find_images(images), weights, cache, args.config, args.size, args.batch_size, args.workers,
        args.device, Progress('embed'), replace,
    )  # fmt: skip
    if embedding.broken and is_main_process():
        some = printable(', '.join(embedding.broken[:3]))
        count = counted(len(embedding.broken), 'image')
        print(f'left out {count} that cannot be read: {some}')
    return embedding


def _images_and_weights(
    source: list[str], weights: str | None, data: str | None
) -> tuple[list[str], str | None]:
    """The images to embed and the checkpoint; none of both for a file of embeddings."""
    from ttl_mm.errors import UserError
    from ttl_mm.explore.embedding import is_embedding

    if weights is not None:
        return source, weights
    if len(source) > 1 or Path(source[0]).is_dir():
        raise UserError(f'{source[0]} is a folder of images: name --weights FILE as well.')
    if is_embedding(source[0]):
        return [], None
    if data is None:
        raise UserError(
            f'{source[0]} is no file of `ttl embed`: if it is a checkpoint, name the images '
            'with --data DIR.'
        )
    return [data], source[0]
