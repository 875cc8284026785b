"""Loss and gradient of one batch on the device, against the CPU in float64."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.logging import MessageHub
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from torch import Tensor, nn

from ttl_mm.datasets.train_loader import train_loader
from ttl_mm.engine.runner.networks import find_blocks, prepare_networks
from ttl_mm.registry import MODELS

BATCH = 8  # at most; float64 on a CPU takes long
DAMPED = 0.2  # scale of the last BatchNorm of a residual branch


def compare_with_float64(cfg: Config, dtype: str | None) -> dict[str, dict[str, float]]:
    """Errors of loss and gradient against the CPU in float64.

    Returns:
        'device' and 'cpu' in float32; with a ``dtype`` (as 'bfloat16') also 'device_mixed', and
        'cpu_mixed' in bfloat16, the coarser one. An untrained network magnifies rounding, so
        the device is judged by the CPU.
    """
    init_default_scope(cfg.get('default_scope', 'mmengine'))
    batch, device = first_batch(cfg), get_device()
    torch.manual_seed(0)
    model = revert_sync_batchnorm(MODELS.build(cfg.model))
    model.init_weights()
    damp_residual_branches(model)
    exact = loss_and_gradient(deepcopy(model).double(), batch)

    def on_cpu() -> dict[str, float]:
        return errors(loss_and_gradient(deepcopy(model), batch), exact)

    def on_device() -> dict[str, float]:
        there = deepcopy(model).to(device)
        prepare_networks(there, cfg)
        return errors(loss_and_gradient(there, batch), exact)

    with full_float32():
        found = {'cpu': on_cpu(), 'device': on_device()}
    if dtype is not None:
        with torch.autocast('cpu', torch.bfloat16):
            found['cpu_mixed'] = on_cpu()
        with torch.autocast(device, getattr(torch, dtype)):
            found['device_mixed'] = on_device()
    return found


def damp_residual_branches(model: Any) -> None:
    """Start nearer to the identity, where half precision can tell one gradient from another."""
    for block in find_blocks(model):
        last = getattr(block, 'bn3', None) or getattr(block, 'bn2', None)
        if last is not None:  # named so in mmpretrain, torchvision and timm
            nn.init.constant_(last.weight, DAMPED)
    if hasattr(model, 'target_backbone'):
        model.sync_target()


def first_batch(cfg: Config) -> dict[str, Any]:
    """The first batch of a run, read in this process."""
    settings = dict(cfg.train_dataloader, num_workers=0, persistent_workers=False, pin_memory=False)
    settings['batch_size'] = min(settings['batch_size'], BATCH)
    loader = train_loader(Runner.build_dataloader(settings, seed=0), seed=0)
    return next(iter(loader)).data


def loss_and_gradient(model: Any, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The loss, and the gradient of all weights as one vector; both on the CPU in float64."""
    model.train()
    # some of mmpretrain's models look there how far a run is
    MessageHub.get_current_instance().update_info_dict({'iter': 0, 'max_iters': 1})
    if hasattr(model, 'set_progress'):  # the same sizes for everybody
        model.set_progress(seed=0, iteration=0)
    inputs = cast_images(model.data_preprocessor(deepcopy(batch), True), model)
    loss, _ = model.parse_losses(model(**inputs, mode='loss'))
    with torch.autocast(loss.device.type, enabled=False):
        loss.backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return loss.detach().double().cpu(), torch.cat(gradients).double().cpu()


def cast_images(data: dict[str, Any], model: nn.Module) -> dict[str, Any]:
    """The images of a batch in the precision of the weights."""
    dtype, images = next(model.parameters()).dtype, data['inputs']
    several = isinstance(images, (list, tuple))
    cast = [image.to(dtype) for image in images] if several else images.to(dtype)
    return {**data, 'inputs': cast}


def errors(found: tuple[Tensor, Tensor], exact: tuple[Tensor, Tensor]) -> dict[str, float]:
    """Error of the loss, and of the gradient as a share of its length."""
    gradient = (found[1] - exact[1]).norm() / exact[1].norm()
    return {'loss': float((found[0] - exact[0]).abs()), 'gradient': float(gradient)}


@contextmanager
def full_float32() -> Iterator[None]:
    """Turn off TF32, in which GPUs by default compute convolutions of float32."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
