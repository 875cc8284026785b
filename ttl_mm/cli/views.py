"""``ttl views``: see what the network sees."""

import argparse
from pathlib import Path

from ttl_mm.arguments import images, integer
from ttl_mm.cli._options import add_out, add_overwrite, add_shared
from ttl_mm.errors import UserError
from ttl_mm.outputs import claim_file

HELP = 'draw a sheet of images with their random views'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add('old_data', nargs='?', help=argparse.SUPPRESS)
    add_shared(parser, '--data', type=images, help="folder of images (default: the config's)")
    add_shared(parser, '--config', help="config whose views are drawn (default: the paper's)")
    add_out(parser, 'FILE', 'the sheet', 'views.png')
    add_overwrite(parser)
    add(
        '--images',
        type=integer(1, 1000),
        default=6,
        metavar='N',
        help='rows of the sheet (default: 6)',
    )
    add('--epochs', type=integer(1, 100), default=2, metavar='N', help='epochs shown (default: 2)')
    add('--seed', type=integer(0, 2**32 - 1), default=0, help='seed of the run (default: 0)')


def run(args: argparse.Namespace) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    import cv2
    from mmengine.registry import init_default_scope

    from ttl_mm.config import read_config
    from ttl_mm.datasets import ImageFolder
    from ttl_mm.datasets.build_dataset import build_dataset
    from ttl_mm.datasets.view_sheet import view_sheet

    init_default_scope('mmpretrain')
    if args.old_data is not None:
        raise UserError(f'the folder is now given as --data {args.old_data}')
    if args.config is None and args.data is None:
        raise UserError('nothing to draw: give --data DIR, --config FILE, or both')
    claim_file(args.out, args.overwrite)
    rgb = False
    dataset: dict = {'pipeline': [{'type': 'ttl_mm.RandomViews'}, {'type': 'PackInputs'}]}
    if args.config is not None:
        config = read_config(args.config)
        if not config.get('train_dataloader'):
            raise UserError(f'{args.config} has no train_dataloader, so it makes no views')
        dataset = config.train_dataloader.dataset
        # a model that does not turn BGR into RGB gets RGB from its dataset
        pixels = config.get('model', {}).get('data_preprocessor', {})
        rgb = not pixels.get('to_rgb', True) and pixels.get('type') != 'ttl_mm.BandsPreprocessor'
    if args.data is not None:
        pipeline = innermost(dataset)['pipeline']
        if args.config is None:
            pipeline[0] |= measured_bands(ImageFolder(args.data))
        dataset = {'type': 'ttl_mm.ImageFolder', 'data_root': args.data, 'pipeline': pipeline}
    found = build_dataset(dataset, args.config or args.data)
    sheet = view_sheet(found, args.images, args.epochs, args.seed, rgb=rgb)
    if not (cv2.haveImageWriter(args.out) and cv2.imwrite(args.out, sheet)):
        raise UserError(f'{args.out} cannot be written: check the folder and the ending (.png)')
    print(Path(args.out).resolve())


def measured_bands(images) -> dict:
    """For images beyond 8-bit RGB, the range that ``ttl train`` would measure; it is printed."""
    from ttl_mm.planning.image_sources import FoundImages, ImageSource, look_at_some

    source = ImageSource(Path(images.data_root).resolve(), images.names)
    measured, left_out = look_at_some(FoundImages([source]))
    for sentence in left_out:
        print(sentence)
    if measured is None:
        return {}
    print(measured)
    for sentence in measured.cautions:
        print(sentence)
    print(f'bands={measured.bands.config()}, mean={measured.mean}, std={measured.std}')
    return {'bands': measured.bands}


def innermost(dataset: dict) -> dict:
    """The config of the (first) dataset inside wrappers such as Fraction or ConcatDataset."""
    while 'dataset' in dataset or 'datasets' in dataset:
        dataset = dataset['dataset'] if 'dataset' in dataset else dataset['datasets'][0]
    return dataset
