"""The neck must take as many channels as the backbone gives."""

from torch import nn

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.models import TTLAlgorithm


def check_neck_width(runner) -> None:
    """Refuse a backbone of another width before the first step, in which matrices would not fit."""
    model = unwrap_model(runner.model)
    if not isinstance(model, TTLAlgorithm):
        return
    given = getattr(model.backbone, 'feat_dim', None)  # of mmpretrain's ResNets
    first = next((part for part in model.neck.modules() if isinstance(part, nn.Linear)), None)
    if isinstance(given, int) and first is not None and first.in_features != given:
        raise UserError(
            f'the backbone gives {given} channels and the neck takes {first.in_features}: set '
            f'model.neck.in_channels={given}.'
        )
