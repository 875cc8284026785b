"""``ttl segment``: train FCN on your own masks, and use it."""

from argparse import ArgumentParser, Namespace

from ttl_mm.arguments import (
    device,
    input_folder,
    input_path,
    integer,
    number,
    output_file,
    output_folder,
    weights,
)

NAME = 'segment'
HELP = 'semantic segmentation: train FCN on your own masks, use it'
TRAIN = 'train FCN on masks of VOC or ADE style, from pre-trained and from random weights'
RUN = 'find the classes of pixels: a mask for every image, and pictures'


def add_arguments(parser: ArgumentParser) -> None:
    """Add ``train`` and ``run``."""
    jobs = parser.add_subparsers(dest='job', required=True, metavar='JOB')
    train = jobs.add_parser('train', help=TRAIN, description=TRAIN)
    train.set_defaults(work=_train)
    add = train.add_argument
    text = 'a VOC folder (JPEGImages, SegmentationClass), or a folder with images and annotations'
    add('data', type=input_folder, metavar='DATA', help=text)
    text = 'the backbone to start from: a ResNet in any layout, or ttl_mm://NAME'
    add('--weights', type=weights, metavar='CHECKPOINT', required=True, help=text)
    text = 'do not train from random weights for comparison'
    add('--no-baseline', action='store_true', help=text)
    text = 'length of a run (default: 50, more where the images are few)'
    add('--epochs', type=integer(1), metavar='N', help=text)
    text = 'patches of a step (default: 4)'
    add('--batch-size', type=integer(1), default=4, metavar='N', help=text)
    text = 'learning rate for 16 patches (default: 0.003)'
    add('--rate', type=number(0, above=True), metavar='R', help=text)
    text = 'edge of the patches, and short side of images in a test (default: 513)'
    add('--size', type=integer(32, 4096), default=513, metavar='PIXELS', help=text)
    text = 'processes that load images (default: 2)'
    add('--workers', type=integer(0, 512), default=2, metavar='N', help=text)
    add('--seed', type=integer(0), default=0, metavar='N', help='default: 0')
    add('--device', type=device, help='where to test, such as cuda:1 or cpu')
    text = 'folder for everything (default: one below work_dirs, named after DATA)'
    add('--out', type=output_folder, metavar='DIR', help=text)
    text = 'write the config for tools/train.py instead of training'
    add('--config-out', type=output_file, metavar='FILE', help=text)

    use = jobs.add_parser('run', help=RUN, description=RUN)
    use.set_defaults(work=_run)
    add = use.add_argument
    text = 'folders of any depth, or lists of files'
    add('images', nargs='+', type=input_path, metavar='IMAGES', help=text)
    text = 'segmenter.pth of `ttl segment train`'
    add('--weights', type=weights, metavar='FILE', required=True, help=text)
    text = 'folder for masks and pictures (default: masks)'
    add('--out', type=output_folder, metavar='DIR', default='masks', help=text)
    text = 'images to draw (default: 50)'
    add('--pictures', type=integer(0), default=50, metavar='N', help=text)
    add('--device', type=device, help='such as cuda:1 or cpu (default: a GPU if there is one)')
    add('--overwrite', action='store_true', help='replace what others wrote into the folder')


def run(args: Namespace) -> None:
    """Run one of the jobs."""
    own = ('command', 'job', 'run', 'work')  # of the command line itself
    args.work(**{name: value for name, value in vars(args).items() if name not in own})


def _train(no_baseline: bool, **options) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.tasks.segmentation.job import train_segmenter

    train_segmenter(**options, baseline=not no_baseline)


def _run(**options) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.tasks.segmentation.job import run_segmenter

    run_segmenter(**options)
