"""``ttl detect``: check a detection run before it starts."""

from argparse import ArgumentParser, Namespace

from ttl_mm.arguments import add_cfg_options, input_file, weights
from ttl_mm.errors import UserError

NAME = 'detect'
HELP = 'object detection: check a run before it starts'
CHECK = 'check data, compiled ops and initial weights of a detection config before training'


def add_arguments(parser: ArgumentParser) -> None:
    """Add ``check``."""
    jobs = parser.add_subparsers(dest='job', required=True, metavar='JOB')
    check = jobs.add_parser('check', help=CHECK, description=CHECK)
    check.add_argument(
        'config', metavar='FILE', type=input_file, help='a config in projects/detection/configs'
    )
    every = 'also check that backbone and res5 start from this file, every tensor'
    check.add_argument('--checkpoint', metavar='FILE', type=weights, help=every)
    add_cfg_options(check, 'train_dataloader.batch_size=2, as for tools/train.py')


def run(args: Namespace) -> None:
    """Print the report; raise if training would fail or start from other weights."""
    from mmengine.logging import MMLogger

    import ttl_mm.tasks.detection.parts  # noqa: F401 raises if the compiled ops are missing
    from ttl_mm.config import read_config
    from ttl_mm.datasets.data_report import require_usable
    from ttl_mm.tasks.detection.checks import check_config

    MMLogger.get_instance('ttl detect check', log_level='ERROR')  # no line per tensor
    cfg = read_config(args.config, args.cfg_options)
    reports = check_config(cfg)
    print(*reports, sep='\n')
    require_usable(reports, f'the data of {args.config}')
    if args.checkpoint:
        check_start(cfg, args.checkpoint)


def check_start(cfg, checkpoint: str) -> None:
    """Build and initialize the model, and compare its tensors with those of the checkpoint."""
    from mmdet.registry import MODELS
    from mmengine.registry import init_default_scope

    from ttl_mm.checkpoint.coverage import count_equal
    from ttl_mm.checkpoint.load import load_backbone_state

    init_default_scope('mmdet')
    model = MODELS.build(cfg.model)
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
