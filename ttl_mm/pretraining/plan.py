"""Make a plan: look at the images and the machine, try a few steps, choose the rest."""

import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.registry import DefaultScope

from ttl_mm.checkpoint.coverage import compare
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.datasets.images_in_memory import memory_of
from ttl_mm.datasets.name_list import write_name_list
from ttl_mm.datasets.part import Part
from ttl_mm.engine.runner.networks import choose_networks
from ttl_mm.engine.runner.precision import choose_precision
from ttl_mm.errors import counted
from ttl_mm.evaluation.data import open_splits
from ttl_mm.evaluation.probe import KNN
from ttl_mm.files.stores.url import as_given
from ttl_mm.gauges.forecast import gain_of_more, references
from ttl_mm.models.backbones import find_backbone
from ttl_mm.models.libraries import given_module
from ttl_mm.planning.image_sources import FoundImages, Sample, find_images, try_images
from ttl_mm.planning.machine import Machine, this_machine
from ttl_mm.planning.memory import GIB, measure_config
from ttl_mm.planning.request import Request, check_request
from ttl_mm.planning.train_config import (
    RECIPE,
    num_negatives,
    pixel_share,
    read_train_recipe,
    train_config,
)
from ttl_mm.planning.train_length import better_size, duration, settle
from ttl_mm.planning.train_plan import TrainPlan, draft
from ttl_mm.planning.trial import run_trial
from ttl_mm.registry import MODELS

SHARE_OF_MEMORY = 0.8  # that a run may take of what is free


@dataclass
class Planner:
    """A plan in the making: what is known about images and machine."""

    request: Request
    begun: float  # time.monotonic() of the command
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self.machine: Machine = this_machine()
        check_request(self.request, self.machine)
        if self.request.backbone is not None:
            find_backbone(self.request.backbone)
        self.found: FoundImages = find_images(self.request.images)
        self.sample: Sample = try_images(self.found)
        self.recipe: Config = read_train_recipe()

    def make(self) -> TrainPlan:
        """Try a few steps, at a second size where ``hours`` asks for another one; settle."""
        plan = self._draft(self.request)
        if self.request.init is not None:
            check_init(self.request.init, plan)
        plan = self._try(plan)
        size = better_size(plan, self.request, self.sample)
        if size != plan.size:
            self.say(f'{plan.size} px leave {counted(plan.steps, "step")}: trying {size} px.')
            reason = f'more steps than the {plan.steps} that {plan.size} px leave'
            if size > plan.size:
                reason = 'the time suffices for it'
            other = self._draft(replace(self.request, size=size))
            plan = self._try(replace(other, why={**other.why, 'size': reason}))
        return plan

    def _draft(self, request: Request) -> TrainPlan:
        batch = self.recipe.train_dataloader.batch_size
        facts = request, len(self.found), self.sample, self.machine, batch
        config = self._config(replace(draft(*facts, batch), steps=1), Path('images.txt'))
        free = SHARE_OF_MEMORY * self.machine.memory / GIB
        plan = draft(*facts, measure_config(config).largest_batch(free))
        return replace(plan, pixel_share=pixel_share(self.recipe, find_backbone(plan.backbone)))

    def _try(self, plan: TrainPlan) -> TrainPlan:
        with tempfile.TemporaryDirectory(prefix='ttl_plan_') as folder:
            config = self.config(replace(plan, steps=1), Path(folder))
            self.say(f'Trying a few steps of {plan.backbone} at {plan.size} px ...')
            trial = run_trial(config, plan.ranks, self.request.hours, given_module(plan.backbone))
        return settle(plan, trial, self.request, time.monotonic() - self.begun)

    def config(self, plan: TrainPlan, folder: Path) -> Config:
        """The config of the run; the lists that it names are written into ``folder``."""
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        images = folder / 'images.txt'
        write_name_list(images, self.found.names())
        labeled = None
        if self.request.labels is not None:
            labeled = write_splits(self.request.labels, plan.size, folder)
        return self._config(plan, images, labeled)

    def _config(self, plan: TrainPlan, images: Path, labeled: dict | None = None) -> Config:
        init = Path(self.request.init) if self.request.init is not None else None
        cfg = train_config(plan, self.recipe, self.found.root, images, init, labeled)
        asked = self.request
        choose_precision(cfg, asked.amp)
        choose_networks(cfg, asked.compile, asked.checkpoint_activations)
        if asked.patience is not None:
            cfg.default_hooks.early_stop = {
                'type': 'ttl_mm.EarlyStopHook', 'patience': asked.patience,
            }  # fmt: skip
        return cfg

    def table(self, plan: TrainPlan) -> str:
        """The plan in one screen."""
        trial, machine, sample = plan.trial, self.machine, self.sample
        weights = sum(p.numel() for p in _build(plan).parameters()) / 1e6
        speed = plan.batch * plan.ranks / plan.mean_step
        seconds = plan.seconds(bool(self.request.labels))
        tried = f'{sample.tried} tried, {len(sample.bad)} unreadable ({sample.bad_share:.1%})'
        device = counted(plan.ranks, 'GPU')
        if not machine.gpus:
            device = f'CPU, {counted(plan.ranks, "process", "processes")}'
        head = self._config(plan, Path('images.txt')).model.head
        negatives, deputy = num_negatives(head, plan.batch), head.deputy
        ranks = f'{deputy[0]} to {deputy[1]}' if isinstance(deputy, (list, tuple)) else str(deputy)
        loaders = counted(plan.workers, 'process', 'processes')
        save = duration(plan.save_every * plan.mean_step)
        rows = [
            ('images', f'{plan.images:,}', tried),
            *([('pixels', str(plan.pixels), 'measured; stored with the network')]
              if plan.pixels else []),
            ('network', plan.backbone, f'{plan.why["network"]}; {weights:.1f} million weights'),
            ('size', f'{plan.size} px', plan.why['size']),
            *self._growth_row(plan),
            ('device', device, f'{loaders} to load images for each'),
            *self._speed_row(),
            *([('decoded', f'{memory_of(plan.images, plan.edge) / GIB:.2g} GB',
                f'once, and kept in memory at {plan.edge} px')]
              if plan.edge else []),
            ('batch', f'{plan.batch}', f'{plan.why["batch"]}; {negatives} negatives an image'),
            ('k', ranks, 'ranks of the negatives pushed away, 1 the hardest'),
            ('epochs', f'{plan.epochs:.4g}', plan.why['length']),
            ('steps', f'{plan.steps:,}', f'{plan.steps_per_epoch} an epoch'),
            ('speed', f'{speed:.3g} images/s', f'measured on {trial.steps} steps, {trial.step:.2g} '
             's each'),
            ('time', duration(seconds), f'{duration(trial.start_up)} to start; a checkpoint every '
             f'{save}'),
            *self._more_hours_row(),
            ('memory', f'{trial.memory / GIB:.1f} GB', f'measured; {machine.memory / GIB:.1f} GB '
             'are free'),
            ('disk', f'{plan.disk / GIB:.2f} GB', 'checkpoints'),
            ('recipe', 'of ttl_mm', Path(RECIPE).stem),
        ]  # fmt: skip
        left, middle = (max(len(row[i]) for row in rows) for i in (0, 1))
        lines = [f'  {a:{left}}  {b:{middle}}  {c}' for a, b, c in rows]
        return '\n'.join([*lines, *(_caution(text) for text in plan.cautions)])

    def _growth_row(self, plan: TrainPlan) -> list[tuple[str, str, str]]:
        """The sizes of the views, where they are not that of the plan all the time."""
        (views, *_) = self._config(plan, Path('images.txt')).train_dataloader.dataset.pipeline
        view = views.views[0]
        if not view.later_sizes:
            return []
        later = [(epoch, size) for epoch, size in view.later_sizes if epoch < plan.epochs]
        sizes = ', '.join(f'{size} px from epoch {epoch}' for epoch, size in later)
        why = f'first; {sizes}' if later else f'small for so short a run; judged at {plan.size} px'
        return [('views', f'{view.size} px', why)]

    def _more_hours_row(self) -> list[tuple[str, str, str]]:
        """What twice the hours would buy, where hours were asked for."""
        if self.request.hours is None:
            return []
        low, expected, high = (gain - 1 for gain in gain_of_more(2.0, references()[KNN]))
        gain = f'{expected:.0%} ({low:.0%} to {high:.0%}) more gain in accuracy over no training'
        return [('twice as long', f'{2 * self.request.hours:g} h', f'{gain}, by docs/judge.md')]

    def _speed_row(self) -> list[tuple[str, str, str]]:
        """The options that change speed and memory, if there are any."""
        asked = self.request
        words = [f'mixed precision {asked.amp}'] if asked.amp else []
        words += ['compiled'] if asked.compile else []
        words += ['activations computed again'] if asked.checkpoint_activations else []
        return [('speed-up', ', '.join(words), 'as asked for')] if words else []


def _caution(text: str) -> str:
    """In lines that a narrow terminal does not break inside a word."""
    return textwrap.fill(f'! {text}', 80, subsequent_indent='  ', break_long_words=False)


def write_splits(labels: str, size: int, folder: Path) -> dict[str, dict[str, str]]:
    """Lists of the labeled images that kNN learns from and is tested on."""
    splits, _ = open_splits(labels, size)
    written = {}
    for name, split in splits.items():
        whole: Any = split.dataset if isinstance(split, Part) else split
        names = [whole.names[i] for i in split.indices] if isinstance(split, Part) else whole.names
        path = folder / f'labels_{name}.txt'
        write_name_list(path, names)
        root = as_given(Path(whole.data_root).resolve())
        written[name] = {'data_root': root, 'list_file': str(path)}
    return written


def check_init(path: str, plan: TrainPlan) -> None:
    """Refuse weights of another network before anything is measured."""
    name = plan.backbone
    remedy = f'Give weights of a {name}, or the --backbone that they are of.'
    expected = _build(plan).state_dict()
    names = expected if '/' in name else None
    compare(expected, load_backbone_state(path, expected=names), path).require(1.0, remedy)


def _build(plan: TrainPlan):
    config = dict(find_backbone(plan.backbone).config_for(plan.size))
    if plan.pixels is not None and plan.pixels.bands.channels != 3:
        config['in_channels'] = plan.pixels.bands.channels
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return MODELS.build(config)
