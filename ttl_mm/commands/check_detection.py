"""``ttl check_detection``: what would go wrong in a detection run, before it starts."""

from argparse import ArgumentParser, Namespace

from ttl_mm.errors import UserError

HELP = 'check data, compiled ops and start weights of a detection config before training'


def add_arguments(parser: ArgumentParser) -> None:
    """Add the config, its overrides and the checkpoint."""
    parser.add_argument('config', help='a config in projects/detection/configs')
    parser.add_argument('--checkpoint', help='where every tensor of backbone and res5 must be from')
    parser.add_argument(
        '--cfg-options', nargs='+', default=[], metavar='KEY=VALUE', help='as for tools/train.py'
    )


def run(args: Namespace) -> None:
    """Print what was found; raise if training would fail or start from other weights."""
    from mmengine.config import DictAction
    from mmengine.logging import MMLogger

    import ttl_mm.detection  # noqa: F401 says so if the compiled ops are missing
    from ttl_mm.datasets.detection_checks import check_config
    from ttl_mm.engine.config_check import read_config

    MMLogger.get_instance('check_detection', log_level='ERROR')  # not a line for each tensor
    options = ArgumentParser()
    options.add_argument('options', nargs='*', action=DictAction)
    cfg = read_config(args.config, options.parse_args(args.cfg_options).options)
    reports = check_config(cfg)
    print(*reports, sep='\n')
    if not all(report.usable for report in reports):
        raise UserError('this data cannot be trained on: mend the errors above.')
    if args.checkpoint:
        check_start(cfg, args.checkpoint)


def check_start(cfg, checkpoint: str) -> None:
    """Build and initialise the model, and compare its tensors with those of the checkpoint."""
    from mmdet.registry import MODELS
    from mmengine.registry import init_default_scope

    from ttl_mm.models.pretrained_init import equal_tensors, start_state

    init_default_scope('mmdet')
    model = MODELS.build(cfg.model)
    model.init_weights()
    state = start_state(checkpoint)
    found = {
        'backbone': equal_tensors(model.backbone, state),
        'res5': equal_tensors(model.roi_head.shared_head.layer4, state, 'layer4.'),
    }
    for title, (equal, total) in found.items():
        print(f'{title}: {equal} of {total} tensors are those of {checkpoint}')
        if equal < total:
            raise UserError(
                f'{total - equal} tensors of {title} do not start from {checkpoint}: set '
                'model.backbone.init_cfg.checkpoint and '
                'model.roi_head.shared_head.init_cfg.checkpoint to it, as run.sh does.'
            )
