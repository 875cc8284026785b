"""``ttl plan --try``: some minutes of several settings on the images of the user, judged."""

import math
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mmengine.config import Config
from mmengine.registry import DATASETS, MODELS, DefaultScope

from ttl_mm.checkpoint.sealed import newest_valid, read_sealed
from ttl_mm.config import read_config
from ttl_mm.datasets.train_samples import TrainSamples
from ttl_mm.engine.runner.processes import train_in_processes
from ttl_mm.errors import UserError, counted
from ttl_mm.evaluation.view_features import spread_indices, view_features
from ttl_mm.files.regular import LOG, read_text
from ttl_mm.gauges.label_free import nearest_neighbors, shares_of_images
from ttl_mm.gauges.verdict import SURE
from ttl_mm.planning.config import views_of_recipe
from ttl_mm.planning.planner import Plan
from ttl_mm.planning.train_config import WARM_UP
from ttl_mm.planning.trial import ENDED_BY_USER, run_trial

RATE = 3.0  # times that of the plan
SCALE = 0.75  # of the edge of a view
LEAST_SECONDS = 60.0
FEWEST_STEPS = 30
NEIGHBORS = 10
IMAGES, DRAWS = 2048, 2  # that the settings are judged on; each draw gives two views


class Setting(NamedTuple):
    """One way to train, and what it is called."""

    name: str
    plan: Plan
    scale: float = 1.0  # of the size of the views


class Tried(NamedTuple):
    """What came of it: the share of neighbors that each image keeps under another view, (N,)."""

    setting: Setting
    steps: int
    shares: np.ndarray

    @property
    def kept(self) -> float:
        """The mean share."""
        return float(self.shares.mean())

    @property
    def error(self) -> float:
        """Its standard error, over the images."""
        return _error(self.shares)


def _error(values: np.ndarray) -> float:
    return float(values.std() / math.sqrt(len(values)))


def settings_to_try(plan: Plan, recipe: str | Path, free_k: bool = True) -> list[Setting]:
    """The plan as it is, and with another rate, smaller views and another rank.

    Args:
        plan: The plan.
        recipe: Its config, whose views must be ours to be made smaller.
        free_k: Whether the rank may be changed.
    """
    lr = float(f'{RATE * plan.recipe.lr:.4g}')
    found = [
        Setting('as planned', plan),
        Setting(f'rate {lr:g}', plan._replace(recipe=plan.recipe._replace(lr=lr))),
    ]
    if views_of_recipe(read_config(recipe)):
        found.append(Setting(f'views of {SCALE:.0%} of the size', plan, SCALE))
    if free_k:
        k = plan.k // 2 if plan.k > 1 else 2
        found.append(Setting(f'k = {k}', plan._replace(k=k)))
    return found


def try_settings(
    settings: Sequence[Setting],
    write: Callable[[Setting, Path], Path],
    seconds: float,
    devices: int = 1,
    say: Callable[[str], None] = print,
) -> list[Tried]:
    """Train each setting for its part of the time, and judge all on the same views.

    How many steps that are is measured once, so that other work on the machine, which comes and
    goes, gives no setting more computing than another.

    Args:
        settings: The first one is the plan as it is; its views are those that all are judged on.
        write: Writes the config of a setting to a path.
        seconds: For all of them.
        devices: GPUs, or processes.
        say: Receives a line before each.
    """
    if seconds < LEAST_SECONDS * len(settings):
        raise UserError(
            f'--try {seconds:g}s for {len(settings)} settings: each needs at least '
            f'{LEAST_SECONDS:g} s. Give --try {math.ceil(LEAST_SECONDS * len(settings) / 60)}m.'
        )
    part, found = seconds / len(settings), []
    with tempfile.TemporaryDirectory(prefix='ttl_try_') as name:
        folder = Path(name)
        configs = [
            read_config(write(setting, folder / f'setting_{i}.py'))
            for i, setting in enumerate(settings)
        ]
        say('Trying a few steps ...')
        step = run_trial(short_config(configs[0], 100), devices).step
        for i, (setting, config) in enumerate(zip(settings, configs)):
            steps = int(part / (step * setting.scale**2))
            if steps < FEWEST_STEPS:
                raise UserError(
                    f'--try leaves {counted(steps, "step")} of {step:.2g} s for each of '
                    f'{len(settings)} settings, and fewer than {FEWEST_STEPS} tell nothing: give '
                    'more time.'
                )
            say(f'Trying {setting.name} for {counted(steps, "step")}, about {part:.0f} s ...')
            work = folder / f'run_{i}'
            _train(short_config(config, steps), folder / f'run_{i}.py', work, devices)
            found.append(Tried(setting, *measure_setting(work, configs[0])))
    return found


def short_config(config: Config, steps: int) -> Config:
    """The same training with a schedule of so many steps."""
    config = deepcopy(config)
    warm_up = max(1, round(WARM_UP * steps))
    config.train_cfg = {'type': 'ttl_mm.IterLoop', 'max_iters': steps}
    config.param_scheduler = [
        {'type': 'LinearLR', 'start_factor': 0.01, 'end': warm_up, 'by_epoch': False},
        {'type': 'CosineAnnealingLR', 'T_max': steps, 'end': steps, 'by_epoch': False},
    ]
    hooks = config.default_hooks
    for name in ('gauges', 'probe', 'judge', 'early_stop'):
        hooks[name] = None
    hooks.checkpoint = {'type': 'ttl_mm.CheckpointHook', 'by_epoch': False}
    if hooks.get('target_update'):
        hooks.target_update = {'type': hooks.target_update['type'], 'horizon_iters': steps}
    return config


def _train(config: Config, path: Path, work: Path, devices: int) -> None:
    config.dump(path)
    log = path.with_suffix('.txt')
    code = train_in_processes(path, work, devices, log)
    if code in ENDED_BY_USER:
        raise KeyboardInterrupt
    if code:
        lines = [row for row in read_text(log, LOG, errors='replace').splitlines() if row.strip()]
        last = lines[-1].removeprefix('error: ') if lines else 'it printed nothing'
        raise UserError(f'a setting on trial ended with code {code}: {last}')


def measure_setting(work: Path, config: Config) -> tuple[int, np.ndarray]:
    """Steps of a finished run, and the share of its neighbors that each image keeps, (N,)."""
    path, _ = newest_valid(work)
    if path is None:
        raise UserError(f'{work} holds no checkpoint.')
    state = read_sealed(path)
    with DefaultScope.overwrite_default_scope(config.get('default_scope', 'mmpretrain')):
        model: Any = MODELS.build(config.model)
        samples = TrainSamples(DATASETS.build(config.train_dataloader.dataset))
    model.load_state_dict(state['state_dict'])
    indices = spread_indices(IMAGES, len(samples))
    views = view_features(model, samples, indices, DRAWS, seed=0)  # (N, Q, D)
    near = [nearest_neighbors(views[:, i], NEIGHBORS, draw=i) for i in range(views.shape[1])]
    shares = [shares_of_images(a, b).numpy() for a, b in zip(near[::2], near[1::2])]
    return state['meta']['iter'], np.mean(shares, axis=0)


def choose(tried: Sequence[Tried]) -> Tried:
    """The best setting, if it is better than the plan as it is by more than the noise.

    All were judged on the same views, so the noise is that of the difference in the same image.
    """
    first, best = tried[0], max(tried, key=lambda t: t.kept if math.isfinite(t.kept) else -math.inf)
    gain = best.shares - first.shares
    return best if gain.mean() > SURE * _error(gain) else first
