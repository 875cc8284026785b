"""Views must have sizes that the network takes, in every epoch."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mmengine.dataset import Compose

from ttl_mm.datasets.view_params import View
from ttl_mm.datasets.views import RandomViews
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.models.adapted_backbone import AdaptedBackbone, size_refusal
from ttl_mm.models.view_sizes import ViewSizes


def fit_view_sizes(runner) -> None:
    """Round the sizes of later epochs to what the network takes, and say so once.

    Raises:
        UserError: It does not take the views of the first epoch.
    """
    backbone = getattr(unwrap_model(runner.model), 'backbone', None)
    if not isinstance(backbone, AdaptedBackbone):
        return
    changed: set[Any] = set()
    for step in _steps(runner.train_dataloader.dataset):
        firsts: Any = [view.size for view in step.views]  # pairs
        for edge in (edge for size in firsts for edge in size):
            if not backbone.sizes.allows(edge):
                raise UserError(
                    f'RandomViews makes {size_refusal(backbone.name, backbone.sizes, edge)}.'
                )
        fitted = [fitted_view(view, backbone.sizes) for view in step.views]
        changed |= {view.later_sizes for view, new in zip(step.views, fitted) if new is not view}
        step.views = fitted
    if changed:
        what = 'does not grow with the epochs' if backbone.sizes.only else 'grows to allowed sizes'
        runner.logger.info(
            f'The size of the views {what}: {backbone.name} takes {backbone.sizes}, and '
            f'later_sizes was {", ".join(map(str, sorted(changed)))}.'
        )


def fitted_view(view: View, sizes: ViewSizes) -> View:
    """The view with allowed sizes in later epochs; the same object if they are allowed already."""
    pairs: Any = view.later_sizes  # (epoch, (height, width))
    later = tuple((e, (sizes.nearest(h), sizes.nearest(w))) for e, (h, w) in pairs)
    if later == pairs:
        return view
    return replace(view, later_sizes=() if sizes.only else later)


def _steps(dataset: Any) -> Iterator[RandomViews]:
    """The steps that make views, in the pipelines of a dataset and of those that it wraps."""
    pipeline = getattr(dataset, 'pipeline', None)
    if isinstance(pipeline, Compose):
        yield from (step for step in pipeline.transforms if isinstance(step, RandomViews))
    for inner in [vars(dataset).get('dataset'), *vars(dataset).get('datasets', [])]:
        if inner is not None:
            yield from _steps(inner)
