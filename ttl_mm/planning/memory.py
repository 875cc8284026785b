"""How many images fit into a device: measured on a real forward pass, not guessed."""

import logging
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import init_default_scope
from torch import Tensor

from ttl_mm.engine.optim.amp import uses_amp
from ttl_mm.planning.network import with_network
from ttl_mm.registry import MODELS

GIB = 2**30
#: what CUDA, cuDNN workspaces and fragmentation add; calibrated on the two released
#: configurations (104 images in 12 GB, 196 in 24 GB)
OVERHEAD = 1.12
CONTEXT_BYTES = 0.7 * GIB


class MemoryUse(NamedTuple):
    """Bytes that a training step needs: independent of the batch, and for each of its images."""

    fixed: float
    per_image: float

    def bytes_of(self, batch: int) -> float:
        """What a step of ``batch`` images holds, by itself."""
        return self.fixed + self.per_image * batch

    def bytes_on_device(self, batch: int) -> float:
        """The same on a GPU, with what CUDA and fragmentation add."""
        return OVERHEAD * (CONTEXT_BYTES + self.bytes_of(batch))

    def largest_batch(self, gib: float, multiple: int = 8) -> int:
        """Most images that fit into ``gib``; from ``multiple`` on, rounded down to a multiple."""
        room = gib * GIB / OVERHEAD - CONTEXT_BYTES - self.fixed
        images = max(0, int(room // self.per_image))
        return images - images % multiple if images >= multiple else images


def measure_memory(model: Any, views: list[Tensor], half: bool) -> MemoryUse:
    """Memory of one training step, from two small forward passes on the CPU.

    Args:
        model: A module with ``loss(views, None)`` as in mmpretrain's self-supervised models.
        views: Images of one batch, (N, C, H, W) each with N >= 3, at the largest size used.
        half: Whether training runs in mixed precision.
    """
    of_two = kept_for_backward(model, [view[:2] for view in views], half)
    of_all = kept_for_backward(model, views, half)
    per_image = (of_all - of_two) / (len(views[0]) - 2)
    shared = of_two - 2 * per_image  # autocast's copies of the weights
    weights = sum(tensor.nbytes for tensor in model.state_dict().values())
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    fixed = weights + 2 * trained + shared  # gradient and momentum of the optimizer
    return MemoryUse(fixed, per_image + sum(view[0].nbytes for view in views))


def measure_recipe(config: str | Path, backbone: str | None = None) -> MemoryUse:
    """Memory of a recipe's network, or of another, on views of the size that its pipeline makes."""
    cfg = Config.fromfile(config)
    return measure_config(cfg if backbone is None else with_network(cfg, backbone))


def measure_config(cfg: Config) -> MemoryUse:
    """The same, of a config that was read already."""
    init_default_scope(cfg.default_scope)
    pipeline = cfg.train_dataloader.dataset.pipeline
    steps = [step for step in pipeline if not step['type'].endswith('LoadImageFromFile')]
    rng = np.random.default_rng(0)
    bands = next((step['bands'] for step in steps if step.get('bands')), None)
    channels = len(bands['low']) if bands else 3
    image = rng.integers(256, size=(256, 256, channels), dtype=np.uint8)
    views = Compose(steps)({'img': image, 'rng': rng})['inputs']
    model = revert_sync_batchnorm(MODELS.build(cfg.model))
    model.online_sizes = model.target_sizes = None  # the views themselves are the largest size
    batch = [view.expand(3, *view.shape).float() for view in views]
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the head would warn about so small a batch
    try:
        return measure_memory(model, batch, half=uses_amp(cfg.optim_wrapper))
    finally:
        logging.disable(before)


def kept_for_backward(model: Any, views: list[Tensor], half: bool) -> int:
    """Bytes that autograd keeps for the backward pass, without the weights and the images."""
    present = [*model.state_dict().values(), *views]
    own = {tensor.untyped_storage().data_ptr() for tensor in present}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast('cpu', torch.bfloat16, enabled=half),
    ):
        if hasattr(model, 'set_progress'):  # a pass of its own, not the next one of a training
            model.set_progress(seed=0, iteration=0)
        losses = model.loss(views, None)  # holds the graph, so that no address is used twice
    del losses
    return sum(kept.values())
