"""The config that the README prints trains as it is."""

import re
from itertools import pairwise

import torch
from mmengine.hooks import Hook
from torch.nn.utils import parameters_to_vector

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import make_images
from ttl_mm.config import read_config
from ttl_mm.engine import Runner


class Watch(Hook):
    """The target network after every step."""

    def __init__(self):
        self.targets = []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.targets.append(parameters_to_vector(runner.model.target_backbone.parameters()))


def test_the_config_of_the_readme_trains(tmp_path):
    """As printed but for sizes, so that it takes seconds on a CPU."""
    section = (ROOT / 'README.md').read_text().split('## In your own config')[1]
    path = tmp_path / 'own.py'
    path.write_text(re.search(r'```python\n(.*?)```', section, re.DOTALL)[1])
    views = 'train_dataloader.dataset.pipeline.0.views'
    options = {
        '+model.online_sizes': (24, 32),
        '+model.target_sizes': (24, 32),
        'train_dataloader.batch_size': 11,
        'train_dataloader.num_workers': 0,
        'train_dataloader.dataset.data_root': str(make_images(tmp_path / 'images', 22)),
        f'{views}.0.size': 32,
        f'{views}.1.size': 32,
        'train_cfg.max_epochs': 2,
        '+default_hooks.checkpoint': None,
        '+work_dir': str(tmp_path / 'work'),
        '+log_level': 'ERROR',
    }
    runner, watch = Runner.from_cfg(read_config(path, options)), Watch()
    runner.register_hook(watch, 'LOWEST')
    runner.train()
    assert len(watch.targets) == 4
    for before, after in pairwise(watch.targets):
        assert not torch.equal(before, after)
