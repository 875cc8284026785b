"""Enough images for a batch, and no batch of one."""

from typing import Any

from mmengine.dist import get_world_size
from mmpretrain.models import BaseSelfSupervisor

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError, counted


def check_iterations(loader: Any) -> None:
    """Refuse data with which nothing would be trained."""
    images, batch = len(loader.dataset), loader.batch_sampler.batch_size
    if images == 0:
        raise UserError('the training data have no images: check data_root.')
    if len(loader) == 0:
        raise UserError(
            f'{counted(images, "image")} on {counted(get_world_size(), "rank")}: no batch of '
            f'{batch} is full, and drop_last=True drops the others, so nothing would be trained: '
            'lower train_dataloader.batch_size or add images.'
        )


def check_last_batch(runner) -> None:
    """Refuse a batch of one image, which has no negatives and ends the run in BatchNorm."""
    loader = runner.train_dataloader
    batch = loader.batch_sampler.batch_size
    if batch is None or not isinstance(unwrap_model(runner.model), BaseSelfSupervisor):
        return
    if batch == 1:
        raise UserError(
            'train_dataloader.batch_size=1: a single image has no negatives and no batch '
            'statistics. Use at least 2.'
        )
    per_rank = -(-len(loader.dataset) // runner.train_loop.ranks.ranks)
    if per_rank % batch == 1 and not loader.batch_sampler.drop_last:
        raise UserError(
            f'{per_rank} images a rank in batches of {batch} leave a last batch of one image, '
            'which has no batch statistics: set train_dataloader.drop_last=True.'
        )
