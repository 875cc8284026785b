"""``ttl compare``: was the pre-training worth it?"""

import argparse
import re

from ttl_mm import arguments
from ttl_mm.cli._images import add_extraction, add_overwrite
from ttl_mm.cli._options import add_out, add_shared

HELP = 'compare checkpoints on labeled images: which is better, and how surely'


def contestant(value: str) -> str:
    """A type: a file of weights or features, with or without @NETWORK; or the word random."""
    if value != 'random':
        arguments.weights(re.sub(r'@(timm|torchvision|mmpretrain)/[\w.+-]+$', '', value))
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = 'checkpoints in any layout, as FILE@timm/NAME if a file does not name its network; '
    text += 'random, an untrained network like the first; tables of features (.csv, .parquet)'
    add('sources', nargs='+', metavar='CHECKPOINT', type=contestant, help=text)
    text = 'folder of classes or of splits, or a config'
    add_shared(parser, '--data', required=True, type=arguments.images, help=text)
    text = 'images of the pre-training, to see whether test images are among them (default: as the '
    text += 'log beside a checkpoint says)'
    add('--seen', nargs='+', metavar='IMAGES', type=arguments.images, help=text)
    text = 'of knn, linear, lowshot, finetune (default: knn linear)'
    names = ['knn', 'linear', 'lowshot', 'finetune']
    add('--protocols', nargs='+', choices=names, default=names[:2], metavar='NAME', help=text)
    text = 'draws of training images (default: 5)'
    add('--seeds', type=arguments.integer(1, 100), default=5, metavar='N', help=text)
    text = 'passes of finetune over the images (default: 20)'
    add('--epochs', type=arguments.integer(1), default=20, metavar='N', help=text)
    add_extraction(parser)
    add_out(parser, 'DIR', 'features, comparison.json and the page', 'comparison')
    add_overwrite(parser)


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.errors import printable
    from ttl_mm.explore.compare_job import compare
    from ttl_mm.outputs import claimed_folder
    from ttl_mm.planning.image_sources import find_images

    seen = find_images(args.seen) if args.seen else None
    options = {name: getattr(args, name) for name in ('config', 'size', 'batch_size', 'workers')}
    options['device'] = args.device
    with claimed_folder(args.out, 'ttl compare', args.overwrite) as out:
        lines = compare(
            args.sources, args.data, out, args.protocols, args.seeds, seen, args.epochs, options
        )
        for line in lines:
            print(printable(line))
