"""``ttl segment``: train FCN on your own masks, and use it."""

from argparse import ArgumentParser, Namespace

from ttl_mm.arguments import input_folder, integer, options_of
from ttl_mm.finetuning.options import add_training, add_use

NAME = 'segment'
HELP = 'semantic segmentation: train FCN on your own masks, use it'
TRAIN = 'train FCN on masks of VOC or ADE style, from pre-trained and from random weights'
DATA = 'a VOC folder (JPEGImages, SegmentationClass), or a folder with images and annotations'
RUN = 'find the classes of pixels: a mask for every image, and pictures'


def add_arguments(parser: ArgumentParser) -> None:
    """Add ``train`` and ``run``."""
    jobs = parser.add_subparsers(dest='job', required=True, metavar='JOB')
    train = jobs.add_parser('train', help=TRAIN, description=TRAIN)
    train.add_argument('data', type=input_folder, metavar='DATA', help=DATA)
    add_training(
        train, 'DATA',
        weights='the backbone to start from: a ResNet in any layout, or ttl_mm://NAME',
        epochs='length of a run (default: 50, more where the images are few)',
        batch_size='patches of a step (default: 4)',
        rate='learning rate for 16 patches (default: 0.003)',
        size='edge of the patches, and short side of images in a test (default: 513)',
    )  # fmt: skip
    train.add_argument('--seed', type=integer(0), default=0, metavar='N', help='default: 0')
    train.set_defaults(work=_train, batch_size=4, size=513)
    use = jobs.add_parser('run', help=RUN, description=RUN)
    weights, out = 'segmenter.pth of `ttl segment train`', 'folder for masks and pictures'
    add_use(use, weights=weights, out=f'{out} (default: masks)')
    use.set_defaults(work=_run, out='masks')


def run(args: Namespace) -> None:
    """Run one of the jobs."""
    args.work(**options_of(args))


def _train(no_baseline: bool, **options) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.tasks.segmentation.train_job import train_segmenter

    train_segmenter(**options, baseline=not no_baseline)


def _run(**options) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.tasks.segmentation.run_job import run_segmenter

    run_segmenter(**options)
