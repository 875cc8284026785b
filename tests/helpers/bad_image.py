"""A worker of a loader that meets an error of the user."""

from torch.utils.data import DataLoader, Dataset

from ttl_mm.compat.torch_private import end_workers
from ttl_mm.datasets.decode import decode_image


class OneBadImage(Dataset):
    """One file that is no image."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return decode_image(b'<html>')


def read_bad_image_in_worker() -> None:
    """Raise the error of a worker, and end it."""
    loader = DataLoader(OneBadImage(), num_workers=1)
    batches = iter(loader)
    try:
        next(batches)
    finally:
        end_workers(loader, batches)
