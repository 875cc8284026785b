"""The figures of a checkpoint by the probe that its own recipe trains with."""

from pathlib import Path

import torch
from torch import nn

from ttl_mm.errors import UserError

METRICS = {'probe/knn_top1': 'kNN top-1', 'probe/linear_top1': 'linear probe top-1'}


def measure(checkpoint: str | Path, config: str | Path, device: str | None = None) -> dict:
    """Accuracies in percent, as the recipe's :class:`ttl_mm.ProbeHook` would log them.

    Args:
        checkpoint: In any layout, or ``ttl_mm://name``.
        config: The recipe: it has the images, the normalisation and the settings of the probe.
        device: Where to compute.
    """
    from mmengine.registry import DefaultScope

    from ttl_mm.engine.config_check import read_config
    from ttl_mm.evaluation.model import load_model
    from ttl_mm.registry import DATASETS, HOOKS

    settings = read_config(str(config)).get('default_hooks', {}).get('probe')
    if not settings:
        raise UserError(f'{config} has no default_hooks.probe: it does not say what to measure on.')
    model = nn.Module()
    model.backbone, model.data_preprocessor, _ = load_model(str(checkpoint), str(config), device)
    with DefaultScope.overwrite_default_scope('mmpretrain'), torch.random.fork_rng():
        probe = HOOKS.build(settings)
        probe.datasets = {name: DATASETS.build(data) for name, data in probe.configs.items()}
        return {METRICS[name]: value for name, value in probe.measure(model).items()}
