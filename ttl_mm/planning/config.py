"""A plan as a config file that inherits from a recipe."""

import os
from pathlib import Path

from mmengine.config import Config

from ttl_mm.models.backbones import find_backbone
from ttl_mm.outputs import claim_file
from ttl_mm.planning.network import with_network
from ttl_mm.planning.optimizers import OPTIMIZERS
from ttl_mm.planning.planner import Plan

TEMPLATE = """\
# {origin}
# {plan.images:,} images, about {plan.classes} classes: {plan.steps:,} optimizer steps of \
{ours.images_per_step} images.
_base_ = {base!r}

train_dataloader = dict(
    batch_size={ours.batch},
{dataset})
model = dict(
    target_momentum={ours.target_momentum:g},
    head=dict(deputy={plan.k}),
{network})
optim_wrapper = dict(
    accumulative_counts={ours.accumulation},
    optimizer=dict(lr={ours.lr:g}{optimizer}),
{groups})
param_scheduler = [
{schedulers}]
train_cfg = dict(max_epochs={ours.epochs})
default_hooks = dict(target_update=dict(horizon_epochs={horizon}){probe})
auto_scale_lr = dict(base_batch_size={ours.devices} * {ours.batch})
"""
DATASET = """\
    dataset=dict(
        _delete_=True,
        type='ttl_mm.ImageFolder',
        data_root={data_root!r},
        with_label={with_label},
        pipeline={pipeline},
    ),
"""
_ADAMW = ", _delete_=True, type='{0.optimizer}', weight_decay={0.weight_decay:g}"
_GROUPS = '    paramwise_cfg=dict(_delete_=True, norm_decay_mult=0.0, bias_decay_mult=0.0),\n'
PIPELINE = '_base_.train_dataloader.dataset.pipeline'


def write_config(
    plan: Plan,
    recipe: str | Path,
    out: str | Path,
    data_root: str | None = None,
    with_label: bool = False,
    origin: str = 'Planned by ttl plan.',
    overwrite: bool = False,
    backbone: str | None = None,
    scale: float = 1.0,
) -> Path:
    """Write the plan as a config; returns its path.

    Args:
        plan: The plan.
        recipe: Config that it inherits from.
        out: Where to write.
        data_root: Folder of images, in place of the recipe's.
        with_label: Whether its first-level folders are classes; gauges use them.
        origin: First line of the file.
        overwrite: Whether an existing file may be replaced; never the recipe.
        backbone: Name of a network, in place of the recipe's.
        scale: Of the size of all views, where ``data_root`` is given.
    """
    out, ours = claim_file(out, overwrite, recipe), plan.recipe
    cfg = Config.fromfile(recipe)
    ratio = ours.epochs / cfg.train_cfg.max_epochs  # all that is counted in epochs grows alike
    dataset = ''
    if data_root is not None:
        first = cfg.train_dataloader.dataset.pipeline[0]['type'].rpartition('.')[2]
        opens = first == 'RandomViews' or first.startswith('LoadImage')
        steps = PIPELINE if scale == 1 else repr(_scaled_pipeline(cfg, scale))
        pipeline = steps if opens else f"[dict(type='ttl_mm.LoadImage'), *{steps}]"
        dataset = DATASET.format(data_root=data_root, with_label=with_label, pipeline=pipeline)
    out.parent.mkdir(parents=True, exist_ok=True)
    network = find_backbone(backbone) if backbone is not None else None
    choice = OPTIMIZERS[network.norm] if network is not None else None
    text = TEMPLATE.format(
        network=_scaled_sizes(cfg, scale) + ('' if backbone is None else _network(backbone, cfg)),
        optimizer='' if choice is None else _ADAMW.format(choice),
        groups='' if choice is None else _GROUPS,
        origin=origin,
        plan=plan,
        ours=ours,
        base=Path(os.path.relpath(Path(recipe).resolve(), out.parent.resolve())).as_posix(),
        dataset=dataset,
        schedulers=''.join(f'    {_stretched(s, ratio)},\n' for s in cfg.param_scheduler),
        probe=', probe=None' if data_root and 'probe' in cfg.default_hooks else '',
        horizon=_in_epochs(cfg.default_hooks.target_update.horizon_epochs, ratio),
    )
    out.write_text(text)
    return out


def _network(name: str, cfg: Config) -> str:
    """Lines of ``model`` that put another network in the place of the recipe's."""
    model = with_network(cfg, name).model
    parts = {
        'backbone': {**model.backbone, '_delete_': True},
        'neck': {'in_channels': model.neck.in_channels},
        'data_preprocessor': {k: tuple(model.data_preprocessor[k]) for k in ('mean', 'std')},
    }
    return ''.join(f'    {key}={value!r},\n' for key, value in parts.items())


def views_of_recipe(cfg: Config) -> list[dict]:
    """The views of our transform in a recipe; none where it makes its views otherwise."""
    pipeline = cfg.train_dataloader.dataset.get('pipeline', ())
    return [view for step in pipeline for view in step.get('views', ())]


def _scaled_pipeline(cfg: Config, scale: float) -> list[dict]:
    """The steps of the recipe's pipeline with smaller or larger views."""
    steps = [dict(step) for step in cfg.train_dataloader.dataset.pipeline]
    for step in steps:
        if 'views' in step:
            step['views'] = [_scaled_view(view, scale) for view in step['views']]
    return steps


def _scaled_view(view: dict, scale: float) -> dict:
    found = {**view, 'size': round(scale * view['size'])}
    if 'later_sizes' in view:
        found['later_sizes'] = [(epoch, round(scale * size)) for epoch, size in view['later_sizes']]
    return found


def _scaled_sizes(cfg: Config, scale: float) -> str:
    """Lines of ``model`` for sizes that it draws from."""
    sizes = {name: cfg.model.get(name) for name in ('online_sizes', 'target_sizes')}
    return ''.join(
        f'    {name}={tuple(round(scale * edge) for edge in edges)},\n'
        for name, edges in sizes.items()
        if edges and scale != 1
    )


def _stretched(scheduler: dict, ratio: float) -> str:
    """The code of a scheduler by epochs, ``ratio`` times as long."""
    times = [key for key in ('begin', 'end', 'T_max') if scheduler.get(key)]
    settings = {**scheduler, **{key: _in_epochs(scheduler[key], ratio) for key in times}}
    return f'dict({", ".join(f"{key}={value!r}" for key, value in settings.items())})'


def _in_epochs(epochs: float, ratio: float) -> int:
    """A number of epochs in a run that is ``ratio`` times as long; at least one."""
    return max(1, round(epochs * ratio))
