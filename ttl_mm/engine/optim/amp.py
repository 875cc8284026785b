"""Mixed precision on any device, with the kind of half precision that the device computes in."""

from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

import mmengine.optim
import torch
from mmengine.device import get_device
from torch import nn

from ttl_mm.errors import UserError
from ttl_mm.registry import OPTIM_WRAPPERS

#: the options of ``--amp``, and torch's names of them
DTYPES = {'fp16': 'float16', 'bf16': 'bfloat16'}


def computes_in_bfloat16(device: str) -> bool:
    """Whether a device has bfloat16; torch says yes of older GPUs too, where it is emulated."""
    return device != 'cuda' or torch.cuda.get_device_capability() >= (8, 0)


def best_dtype(device: str) -> str:
    """bfloat16, which needs no loss scale, where the device computes in it; else float16."""
    return DTYPES['bf16' if computes_in_bfloat16(device) else 'fp16']


def uses_amp(optim_wrapper: Mapping[str, Any]) -> bool:
    """Whether a config of an optim wrapper asks for mixed precision."""
    kind = optim_wrapper.get('type') or ''
    name = kind if isinstance(kind, str) else kind.__name__
    return name.rpartition('.')[2] == 'AmpOptimWrapper'


@OPTIM_WRAPPERS.register_module()
class AmpOptimWrapper(mmengine.optim.AmpOptimWrapper):
    """mmengine's wrapper for mixed precision, on the CPU too.

    ``loss_scaler`` multiplies the loss of float16, whose smallest gradients would else be 0. It
    is off for bfloat16, which has the range of float32, unless its arguments are given.

    Args:
        loss_scale: 'dynamic', a constant, or a dict of arguments of torch's ``GradScaler``.
        dtype: 'float16', 'bfloat16', or None for :func:`best_dtype` of the device.
    """

    def __init__(
        self,
        loss_scale: str | float | dict[str, Any] = 'dynamic',
        dtype: str | None = None,
        **kwargs: Any,
    ) -> None:
        # mmengine's own would refuse the CPU
        super(mmengine.optim.AmpOptimWrapper, self).__init__(**kwargs)
        self.device = get_device()
        dtype = dtype or best_dtype(self.device)
        if dtype not in DTYPES.values():
            raise UserError(f"optim_wrapper.dtype={dtype!r}: use 'float16' or 'bfloat16'.")
        self.cast_dtype = getattr(torch, dtype)
        options: dict[str, Any] = {}
        self._scale_update_param = None
        if isinstance(loss_scale, dict):
            options = loss_scale
        elif not isinstance(loss_scale, str):
            options = {'init_scale': float(loss_scale)}
            self._scale_update_param = float(loss_scale)  # after every step
        scaled = dtype == DTYPES['fp16'] or isinstance(loss_scale, dict)
        self.loss_scaler = torch.amp.GradScaler(self.device, **options, enabled=scaled)

    @contextmanager
    def optim_context(self, model: nn.Module):
        """The forward pass: half precision, and no exchange of gradients while accumulating."""
        without_cast = super(mmengine.optim.AmpOptimWrapper, self).optim_context
        with without_cast(model), torch.autocast(self.device, self.cast_dtype):
            yield

    def load_state_dict(self, state_dict: dict) -> None:
        """Continue; a run that had no loss scale so far starts with the first one."""
        if not state_dict.get('loss_scaler'):
            state_dict = {k: v for k, v in state_dict.items() if k != 'loss_scaler'}
        super().load_state_dict(state_dict)
