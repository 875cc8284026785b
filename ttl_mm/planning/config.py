"""A plan as a config file that inherits from a recipe."""

import os
from pathlib import Path

from mmengine.config import Config

from ttl_mm.errors import UserError
from ttl_mm.planning.planner import Plan

TEMPLATE = """\
# {origin}
# {images:,} images, about {classes} classes: {steps:,} optimizer steps of {per_step} images.
_base_ = {base!r}

train_dataloader = dict(
    batch_size={batch},
{dataset})
model = dict(
    target_momentum={target_momentum:g},
    head=dict(deputy={k}),
)
optim_wrapper = dict(accumulative_counts={accumulation}, optimizer=dict(lr={lr:g}))
param_scheduler = [
{schedulers}]
train_cfg = dict(max_epochs={epochs})
default_hooks = dict(target_update=dict(horizon_epochs={horizon}))
auto_scale_lr = dict(base_batch_size={devices} * {batch})
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
    out.write_text(
        TEMPLATE.format(
            origin=origin,
            images=plan.images,
            classes=plan.classes,
            steps=plan.steps,
            per_step=ours.images_per_step,
            base=Path(os.path.relpath(Path(recipe).resolve(), out.parent.resolve())).as_posix(),
            dataset=dataset,
            k=plan.k,
            target_momentum=ours.target_momentum,
            batch=ours.batch,
            accumulation=ours.accumulation,
            lr=ours.lr,
            schedulers=''.join(
                f'    {_as_code(stretched(scheduler, ratio))},\n'
                for scheduler in cfg.param_scheduler
            ),
            epochs=ours.epochs,
            horizon=in_epochs(cfg.default_hooks.target_update.horizon_epochs, ratio),
            devices=ours.devices,
        )
    )
    return out


def stretched(scheduler: dict, ratio: float) -> dict:
    """A scheduler by epochs, ``ratio`` times as long."""
    lengths = {
        key: in_epochs(scheduler[key], ratio) for key in ('end', 'T_max') if key in scheduler
    }
    return {**scheduler, **lengths}


def in_epochs(epochs: float, ratio: float) -> int:
    """A number of epochs in a run that is ``ratio`` times as long; at least one."""
    return max(1, round(epochs * ratio))


def _as_code(settings: dict) -> str:
    return f'dict({", ".join(f"{key}={value!r}" for key, value in settings.items())})'
