"""Weights that a config asks for must arrive; mmengine goes on in silence where none fits."""

from collections.abc import Iterator

from mmengine.runner import CheckpointLoader
from torch import nn

from ttl_mm.checkpoint.coverage import ENOUGH, compare
from ttl_mm.checkpoint.load import tensors_below, tensors_of
from ttl_mm.engine.state.model import unwrap_model


def check_pretrained(runner) -> None:
    """Compare every ``init_cfg=dict(type='Pretrained', ...)`` with the file it names."""
    for name, module, init in wanted(unwrap_model(runner.model)):
        checkpoint = CheckpointLoader.load_checkpoint(init['checkpoint'], 'cpu')
        prefix = init.get('prefix', '').rstrip('.')
        prefix += '.' if prefix else ''
        state = tensors_below(prefix, tensors_of(checkpoint))
        where = f'{init["checkpoint"]} (for {name or "the model"})'
        runner.logger.info(compare(module.state_dict(), state, where).require(ENOUGH))


def wanted(model: nn.Module) -> Iterator[tuple[str, nn.Module, dict]]:
    """The modules that are to be loaded from a file."""
    for name, module in model.named_modules():
        inits = getattr(module, 'init_cfg', None) or []
        for init in [inits] if isinstance(inits, dict) else inits:
            if init.get('type') == 'Pretrained' and init.get('checkpoint'):
                yield name, module, init
