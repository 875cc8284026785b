"""A dataset whose worker meets an error of the user."""

from torch.utils.data import Dataset

from ttl_mm.datasets.decode import decode_image


class OneBadImage(Dataset):
    """One file that is no image."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        return decode_image(b'<html>')
