"""``ttl detect``: train a detector on your own boxes, use it, check a run before it starts."""

from argparse import ArgumentParser, Namespace

from ttl_mm.arguments import (
    add_cfg_options,
    input_file,
    input_path,
    integer,
    number,
    options_of,
    text,
    weights,
)
from ttl_mm.errors import UserError
from ttl_mm.finetuning.options import add_training, add_use

NAME = 'detect'
HELP = 'object detection: train a detector on your own boxes, use it, check a run'
TRAIN = 'train a detector on COCO json, VOC folders or YOLO text files, from pre-trained weights'
RUN = 'find objects in images: boxes as COCO json, and pictures'
CHECK = 'check data, compiled ops and initial weights of a detection config before training'
DATA = (
    'a COCO json or its folder, a VOC folder (JPEGImages, Annotations), or a YOLO folder '
    '(images, labels)'
)
MODELS = ('mask-rcnn-fpn', 'faster-rcnn-fpn', 'faster-rcnn-c4', 'retinanet')


def add_arguments(parser: ArgumentParser) -> None:
    """Add ``train``, ``run`` and ``check``."""
    jobs = parser.add_subparsers(dest='job', required=True, metavar='JOB')
    _add_train(jobs.add_parser('train', help=TRAIN, description=TRAIN))
    _add_run(jobs.add_parser('run', help=RUN, description=RUN))
    check = jobs.add_parser('check', help=CHECK, description=CHECK)
    check.set_defaults(work=_check)
    check.add_argument(
        'config', metavar='FILE', type=input_file, help='a config in projects/detection/configs'
    )
    every = 'also check that backbone and res5 start from this file, every tensor'
    check.add_argument('--checkpoint', metavar='FILE', type=weights, help=every)
    add_cfg_options(check, 'train_dataloader.batch_size=2, as for tools/train.py')


def _add_train(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add('data', type=input_path, metavar='DATA', help=DATA)
    add_training(
        parser, 'DATA',
        weights='the backbone to start from: a ResNet in any layout, or ttl_mm://NAME',
        epochs='length of a run (default: fitted to the number of images, at least 2,000 steps)',
        batch_size='images of a step (default: 4)',
        rate='learning rate for 16 images (default: that of the recipe)',
        size='short side of the images (default: 800)',
    )  # fmt: skip
    shown = 'detector (default: mask-rcnn-fpn if all objects have shapes, else faster-rcnn-fpn)'
    add('--model', choices=MODELS, help=shown)
    shown = 'classes to learn (default: all)'
    add('--classes', nargs='+', type=text, metavar='NAME', help=shown)
    add('--seed', type=integer(0), default=0, metavar='N', help='default: 0')
    parser.set_defaults(work=_train, batch_size=4, size=800)


def _add_run(parser: ArgumentParser) -> None:
    weights, out = 'detector.pth of `ttl detect train`', 'folder for detections.json and pictures'
    add_use(parser, weights=weights, out=f'{out} (default: detections)')
    shown = 'leave out boxes with a lower score (default: 0.3)'
    parser.add_argument('--score', type=number(0, 1), default=0.3, metavar='S', help=shown)
    parser.set_defaults(work=_run, out='detections')


def run(args: Namespace) -> None:
    """Run one of the jobs."""
    args.work(**options_of(args))


def _train(no_baseline: bool, **options) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.tasks.detection.train_job import train_detector

    train_detector(**options, baseline=not no_baseline)


def _run(**options) -> None:
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.tasks.detection.run_job import run_detector

    run_detector(**options)


def _check(config: str, checkpoint: str | None, cfg_options: dict | None) -> None:
    """Print the report; raise if training would fail or start from other weights."""
    from mmengine.logging import MMLogger

    import ttl_mm.tasks.detection.parts  # noqa: F401 raises if the compiled ops are missing
    from ttl_mm.config import read_config
    from ttl_mm.datasets.data_report import require_usable
    from ttl_mm.tasks.detection.checks import check_config

    MMLogger.get_instance('ttl detect check', log_level='ERROR')  # no line per tensor
    cfg = read_config(config, cfg_options)
    reports = check_config(cfg)
    print(*reports, sep='\n')
    require_usable(reports, f'the data of {config}')
    if checkpoint:
        check_start(cfg, checkpoint)


def check_start(cfg, checkpoint: str) -> None:
    """Build and initialize the model, and compare its tensors with those of the checkpoint."""
    from mmdet.registry import MODELS
    from mmengine.registry import init_default_scope

    from ttl_mm.checkpoint.coverage import count_equal
    from ttl_mm.checkpoint.load import load_backbone_state
    from ttl_mm.compat.quiet_logging import quiet_outside_runs

    init_default_scope('mmdet')
    model = MODELS.build(cfg.model)
    with quiet_outside_runs():
        model.init_weights()
    state = load_backbone_state(checkpoint)
    found = {
        'backbone': count_equal(model.backbone, state),
        'res5': count_equal(model.roi_head.shared_head.layer4, state, 'layer4.'),
    }
    for title, (equal, total) in found.items():
        print(f'{title}: {equal} of {total} tensors equal those of {checkpoint}')
        if equal < total:
            raise UserError(
                f'{total - equal} tensors of {title} do not start from {checkpoint}: set '
                'model.backbone.init_cfg.checkpoint and '
                'model.roi_head.shared_head.init_cfg.checkpoint to it, as run.sh does.'
            )
