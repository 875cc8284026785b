"""Build a network only after the tensors of a file were found to be its own."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import torch
from mmengine.registry import DefaultScope
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from ttl_mm.checkpoint.coverage import compare, load_state
from ttl_mm.registry import MODELS

_MAKERS = (torch.empty, torch.zeros, torch.ones, torch.rand, torch.randn, torch.full)
_SMALL = 2**14  # values


def build_loaded(
    config: Mapping[str, Any], state: Mapping[str, Tensor], source: str, scope: str = 'mmpretrain'
) -> nn.Module:
    """The network of ``config`` with the tensors of the file ``source``, all of which must fit.

    The shapes of the network are found out first, without memory for its weights. So a file of a
    few kilobytes whose shapes promise a huge network is refused before the network is made.

    Args:
        config: For the registry.
        state: All tensors of the network.
        source: Where they came from, for messages.
        scope: The registry in which short names are looked up.

    Raises:
        UserError: The tensors are not those of the network.
    """
    import_module('ttl_mm.compat.mmpretrain_models')  # quietly, and not inside of WithoutWeights
    with DefaultScope.overwrite_default_scope(scope):
        with WithoutWeights():
            expected = MODELS.build(dict(config)).state_dict()
        compare(expected, state, source).require(1.0)
        network = MODELS.build(dict(config))
    load_state(network, state, source)
    return network


class WithoutWeights(TorchFunctionMode):
    """Inside of it, new tensors lie on the meta device, which has no memory; small ones do not.

    The device as a context would move small tensors, too, and networks compute with those while
    they are built.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _MAKERS:
            planned = func(*args, **{**kwargs, 'device': 'meta'})
            if planned.numel() > _SMALL:
                return planned
        return func(*args, **kwargs)
