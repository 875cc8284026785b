"""Training runs of the recipe for digits, cut short."""

import json
from pathlib import Path

from tests.helpers.paths import ROOT
from ttl_mm.config import read_config
from ttl_mm.engine import Runner

(DIGITS,) = (ROOT / 'configs' / 'digits').glob('ttl_*_digits_*.py')


def train_digits(work_dir: Path, images: int, batch_size: int, loop: dict, **hooks) -> Runner:
    """Train on the first images; of gauges, probe and such only those that are given."""
    config = read_config(DIGITS)
    config.work_dir, config.experiment_name = str(work_dir), work_dir.name
    config.train_dataloader.batch_size = batch_size
    config.train_dataloader.dataset.indices = images
    config.train_cfg = loop
    config.default_hooks.update({'gauges': None, 'probe': None, **hooks})
    config.log_level = 'ERROR'
    runner = Runner.from_cfg(config)
    runner.train()
    return runner


def logged(work_dir: Path, name: str) -> list[dict]:
    """The lines of the log that have this value."""
    (log,) = work_dir.glob('*/vis_data/scalars.json')
    return [line for line in map(json.loads, log.read_text().splitlines()) if name in line]
