"""A deputy of rank k needs k negatives."""

from mmengine.dist import get_world_size

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.errors import UserError


def check(runner) -> None:
    """Refuse a rank that no full batch can have. A shorter last batch is clamped by the head."""
    head = getattr(unwrap_model(runner.model), 'head', None)
    if not hasattr(head, 'largest_rank'):
        return
    batch = RunSettings.of(runner).batch_size_per_rank
    images = batch * (get_world_size() if head.gather_negatives else 1)
    rank = head.largest_rank()
    if rank > images - 1:
        raise UserError(
            f'the head asks for the negative of rank {rank} (k={head.k}, smoothed={head.smoothed}, '
            f'ranks={head.ranks}), and a batch of {images} has {images - 1}: enlarge '
            'train_dataloader.batch_size or lower k.'
        )
