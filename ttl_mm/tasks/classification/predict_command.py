"""``ttl predict``: labels with confidence for images."""

from argparse import ArgumentParser, Namespace

from ttl_mm.arguments import device, images, integer, options_of, output_file, weights

NAME = 'predict'
HELP = 'label images with a classifier of ttl finetune: path, label and confidence as csv'


def add_arguments(parser: ArgumentParser) -> None:
    """Add images and weights."""
    add = parser.add_argument
    text = 'folders of any depth, archives, or lists of files'
    add('images', nargs='+', type=images, metavar='IMAGES', help=text)
    text = 'classifier.pth of `ttl finetune`'
    add('--weights', type=weights, metavar='FILE', required=True, help=text)
    text = 'csv file (default: predictions.csv)'
    add('--out', type=output_file, metavar='FILE', default='predictions.csv', help=text)
    text = 'edge of the square input (default: that of training)'
    add('--size', type=integer(8, 8192), metavar='PIXELS', help=text)
    text = 'images at once (default: 128)'
    add('--batch-size', type=integer(1), default=128, metavar='N', help=text)
    text = 'processes that load images (default: 2)'
    add('--workers', type=integer(0, 512), default=2, metavar='N', help=text)
    add('--device', type=device, help='such as cuda:1 or cpu (default: a GPU if there is one)')
    add('--overwrite', action='store_true', help='replace the file if it is there')


def run(args: Namespace) -> None:
    """Classify and write the table."""
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.tasks.classification.predict import predict

    predict(**options_of(args))
