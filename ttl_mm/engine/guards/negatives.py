"""A deputy of rank k needs k negatives."""

from mmengine.dist import get_world_size

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.errors import UserError
from ttl_mm.models import TruncatedTripletHead


def check_negatives(runner) -> None:
    """Refuse a rank that no full batch can have. A shorter last batch is clamped by the head."""
    head = getattr(unwrap_model(runner.model), 'head', None)
    if not isinstance(head, TruncatedTripletHead):
        return
    batch = RunSettings.of(runner).batch_size_per_rank
    images = batch * (get_world_size() if head.gather_negatives else 1)
    negatives = head.num_negatives(images)
    window = head.window(negatives)
    if window and window[1] > negatives:
        raise UserError(
            f'deputy={head.deputy!r} asks for the negative of rank {window[1]}, and a batch of '
            f'{images} has {negatives}: enlarge train_dataloader.batch_size or choose a deputy '
            'of lower rank.'
        )
