"""Another network in the place of a recipe's."""

from copy import deepcopy
from typing import Any

from mmengine.config import Config

from ttl_mm.errors import UserError
from ttl_mm.models.adapted_backbone import size_refusal
from ttl_mm.models.backbones import Backbone, find_backbone


def set_network(model: Any, backbone: Backbone, size: int) -> None:
    """Give ``model`` of a config this backbone, for images of a size, and its width to the neck."""
    if backbone.pixels is None:
        model.backbone.update(backbone.config)
    else:  # of a library: it has norms, first weights and pixels of its own
        model.backbone = backbone.config_for(size)
        model.data_preprocessor.update(backbone.pixels._asdict())
    model.neck.in_channels = backbone.width


def with_network(recipe: Config, name: str) -> Config:
    """A recipe with the network called ``name``, which must take the recipe's views."""
    cfg, backbone = deepcopy(recipe), find_backbone(name)
    (views,) = (step.views for step in cfg.train_dataloader.dataset.pipeline if 'views' in step)
    sizes = {view.size for view in views}
    refused = [size for size in sizes if not backbone.sizes.allows(size)]
    if refused or (backbone.one_size and len(sizes) > 1):
        edge = refused[0] if refused else min(sizes)
        raise UserError(
            f'the recipe makes {size_refusal(name, backbone.sizes, edge)}: choose another recipe '
            'with --config, or another --backbone.'
        )
    set_network(cfg.model, backbone, max(sizes))
    return cfg
