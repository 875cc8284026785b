"""The model inside a distributed wrapper."""

from mmengine.model import is_model_wrapper
from torch import nn


def unwrap_model(model: nn.Module) -> nn.Module:
    """The network itself: ``model.module`` of a distributed wrapper, or ``model``."""
    return model.get_submodule('module') if is_model_wrapper(model) else model
