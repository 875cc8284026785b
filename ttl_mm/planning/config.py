"""A plan as a config file that inherits from a recipe."""

import os
from pathlib import Path

from mmengine.config import Config

from ttl_mm.errors import UserError
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
)
optim_wrapper = dict(accumulative_counts={ours.accumulation}, optimizer=dict(lr={ours.lr:g}))
param_scheduler = [
{schedulers}]
train_cfg = dict(max_epochs={ours.epochs})
default_hooks = dict(target_update=dict(horizon_epochs={horizon}))
auto_scale_lr = dict(base_batch_size={ours.devices} * {ours.batch})
"""
DATASET = """\
    dataset=dict(
        _delete_=True,
        type='ttl_mm.ImageFolder',
        data_root={data_root!r},
        with_label={with_label},
        pipeline=_base_.train_dataloader.dataset.pipeline,
    ),
"""


def write_config(
    plan: Plan,
    recipe: str | Path,
    out: str | Path,
    data_root: str | None = None,
    with_label: bool = False,
    origin: str = 'Planned by ttl plan.',
) -> Path:
    """Write the plan as a config; returns its path.

    Args:
        plan: The plan.
        recipe: Config that it inherits from.
        out: Where to write; an existing file is not overwritten.
        data_root: Folder of images, in place of the recipe's.
        with_label: Whether its first-level folders are classes; gauges and probes use them.
        origin: First line of the file.
    """
    out, ours = Path(out), plan.recipe
    if out.exists():
        raise UserError(f'{out} exists: name another file with --out, or delete it.')
    cfg = Config.fromfile(recipe)
    ratio = ours.epochs / cfg.train_cfg.max_epochs  # all that is counted in epochs grows alike
    dataset = ''
    if data_root is not None:
        dataset = DATASET.format(data_root=data_root, with_label=with_label)
    out.parent.mkdir(parents=True, exist_ok=True)
    text = TEMPLATE.format(
        origin=origin,
        plan=plan,
        ours=ours,
        base=Path(os.path.relpath(Path(recipe).resolve(), out.parent.resolve())).as_posix(),
        dataset=dataset,
        schedulers=''.join(f'    {_stretched(s, ratio)},\n' for s in cfg.param_scheduler),
        horizon=_in_epochs(cfg.default_hooks.target_update.horizon_epochs, ratio),
    )
    out.write_text(text)
    return out


def _stretched(scheduler: dict, ratio: float) -> str:
    """The code of a scheduler by epochs, ``ratio`` times as long."""
    times = [key for key in ('begin', 'end', 'T_max') if scheduler.get(key)]
    settings = {**scheduler, **{key: _in_epochs(scheduler[key], ratio) for key in times}}
    return f'dict({", ".join(f"{key}={value!r}" for key, value in settings.items())})'


def _in_epochs(epochs: float, ratio: float) -> int:
    """A number of epochs in a run that is ``ratio`` times as long; at least one."""
    return max(1, round(epochs * ratio))
