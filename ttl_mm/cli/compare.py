"""``ttl compare``: was the pre-training worth it?"""

import argparse

from ttl_mm import arguments
from ttl_mm.cli._images import add_extraction, add_overwrite
from ttl_mm.cli._options import add_out, add_shared

HELP = 'compare checkpoints on labeled images: which is better, and how surely'


def weights_or_random(value: str) -> str:
    """A type: a file of weights or its name, or the word random."""
    return value if value == 'random' else arguments.weights(value)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    text = 'checkpoints in any layout; the word random is an untrained network like the first'
    add('sources', nargs='+', metavar='CHECKPOINT', type=weights_or_random, help=text)
    text = 'folder of classes or of splits, or a config'
    add_shared(parser, '--data', required=True, type=arguments.input_path, help=text)
    text = 'images of the pre-training, to see whether test images are among them'
    add('--seen', nargs='+', metavar='IMAGES', type=arguments.input_path, help=text)
    text = 'protocols (default: knn linear)'
    names = ['knn', 'linear', 'lowshot']
    add('--protocols', nargs='+', choices=names, default=names[:2], metavar='NAME', help=text)
    text = 'draws of training images (default: 5)'
    add('--seeds', type=arguments.integer(1, 100), default=5, metavar='N', help=text)
    add_extraction(parser)
    add_out(parser, 'DIR', 'features, comparison.json and the page', 'comparison')
    add_overwrite(parser)


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.errors import printable
    from ttl_mm.explore.compare_job import compare
    from ttl_mm.outputs import claim_folder
    from ttl_mm.planning.image_sources import find_images

    seen = find_images(args.seen) if args.seen else None
    out = claim_folder(args.out, 'ttl compare', args.overwrite)
    options = {name: getattr(args, name) for name in ('config', 'size', 'batch_size', 'workers')}
    options['device'] = args.device
    for line in compare(args.sources, args.data, out, args.protocols, args.seeds, seen, options):
        print(printable(line))
