"""The precision of a run: what its config and ``--amp`` say, and what the device can do."""

import logging

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.logging import print_log

from ttl_mm.engine.optim.amp import DTYPES, best_dtype, computes_in_bfloat16, uses_amp
from ttl_mm.errors import UserError

OURS = 'ttl_mm.AmpOptimWrapper'
_OF_AMP = ('loss_scale', 'dtype', 'use_fsdp')


def choose_precision(cfg: Config, amp: str | None = None) -> None:
    """Write the precision of a run into its config.

    Args:
        cfg: A config with an ``optim_wrapper``.
        amp: 'fp16', 'bf16', 'auto' (the better one of this device) or 'off'; None leaves it to
            the config, but turns mixed precision off where there is no accelerator, since it
            makes a CPU slower.
    """
    wrapper, device = cfg.optim_wrapper, get_device()
    mixed = uses_amp(wrapper)
    if amp is None and mixed and device == 'cpu':
        print_log('No GPU: training in full precision.', 'current', logging.WARNING)
        amp = 'off'
    if amp == 'off' and mixed:
        wrapper.type = 'OptimWrapper'
        for key in _OF_AMP:
            wrapper.pop(key, None)
    elif amp in ('auto', *DTYPES):
        if amp == 'bf16' and not computes_in_bfloat16(device):
            raise UserError(
                f'--amp bf16: {torch.cuda.get_device_name()} does not compute in bfloat16. Use '
                '--amp fp16.'
            )
        wrapper.pop('use_fsdp', None)
        wrapper.setdefault('loss_scale', 'dynamic')
        wrapper.update(type=OURS, dtype=DTYPES.get(amp) or best_dtype(device))
    elif amp not in (None, 'off'):
        raise UserError(f'--amp {amp}: use fp16, bf16 or off.')
    elif mixed and wrapper.type == OURS and not wrapper.get('dtype'):
        wrapper.dtype = best_dtype(device)
