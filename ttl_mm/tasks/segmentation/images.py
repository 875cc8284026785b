"""The dataset of ``ttl segment train``."""

from collections.abc import Sequence

from mmengine.dataset import Compose
from torch.utils.data import Dataset

from ttl_mm.registry import DATASETS
from ttl_mm.tasks.segmentation.masked import read_masks


@DATASETS.register_module()
class MaskedImages(Dataset):
    """Images with masks of VOC or ADE style, read where they lie.

    Args:
        data: What :func:`ttl_mm.tasks.segmentation.masked.read_masks` takes.
        split: 'train' or 'val'.
        pipeline: Transforms.
    """

    def __init__(self, data: str, split: str, pipeline: Sequence = ()) -> None:
        found = read_masks(data, say=lambda text: None, look=False)
        self.pairs, self.zero_is_none = found.split(split), found.zero_is_none
        self.names = [pair.path.name for pair in self.pairs]
        self.metainfo = {'classes': found.classes}
        self.pipeline = Compose(pipeline)

    def __len__(self) -> int:
        return len(self.pairs)

    def get_data_info(self, index: int) -> dict:
        pair = self.pairs[index]
        return {
            'img_path': str(pair.path), 'mask_path': str(pair.mask), 'sample_idx': int(index),
            'zero_is_none': self.zero_is_none,
        }  # fmt: skip

    def __getitem__(self, index: int) -> dict:
        return self.pipeline(self.get_data_info(index))
