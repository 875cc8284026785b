"""Weights that a config asks for must arrive; mmengine goes on in silence where none fits."""

from mmengine.runner import CheckpointLoader

from ttl_mm.checkpoint.coverage import ENOUGH, compare
from ttl_mm.checkpoint.load import tensors_below, tensors_of
from ttl_mm.engine.state.model import unwrap_model


def check_pretrained(runner) -> None:
    """Compare every ``init_cfg=dict(type='Pretrained', ...)`` with the file it names."""
    for name, module in unwrap_model(runner.model).named_modules():
        inits = getattr(module, 'init_cfg', None) or []
        for init in [inits] if isinstance(inits, dict) else inits:
            if init.get('type') == 'Pretrained' and (path := init.get('checkpoint')):
                prefix = (init.get('prefix') or '').rstrip('.')
                tensors = tensors_of(CheckpointLoader.load_checkpoint(path, 'cpu'))
                state = tensors_below(f'{prefix}.' if prefix else '', tensors)
                found = compare(module.state_dict(), state, f'{path} (for {name or "the model"})')
                runner.logger.info(found.require(ENOUGH))
