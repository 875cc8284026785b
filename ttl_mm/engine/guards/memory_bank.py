"""A memory bank has a row for every image (NPID and ODC of mmselfsup)."""

from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError


def check_memory_bank(runner) -> None:
    """Refuse a bank of another length than the data, which would end in an index out of range."""
    bank = getattr(getattr(unwrap_model(runner.model), 'memory_bank', None), 'feature_bank', None)
    images = len(runner.train_dataloader.dataset)
    if bank is not None and len(bank) != images:
        raise UserError(
            f'the memory bank has {len(bank)} rows and the training data {images} images: set '
            f'model.memory_bank.length={images}.'
        )
