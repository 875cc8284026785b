"""From an image and its mask to a patch for training, or to the whole image."""

from typing import Any

import cv2
import numpy as np
import torch
from mmcv.transforms import BaseTransform
from mmengine.structures import BaseDataElement

from ttl_mm.datasets.decode import decode_image
from ttl_mm.registry import TRANSFORMS
from ttl_mm.tasks.segmentation.masked import IGNORED, read_mask


@TRANSFORMS.register_module()
class LoadMasked(BaseTransform):
    """Read ``img_path`` to ``img`` (H, W, 3), BGR, and ``mask_path`` to ``mask`` (H, W)."""

    def transform(self, results: dict) -> dict:
        results['img'] = decode_image(results['img_path'])
        if 'mask_path' in results:
            results['mask'] = read_mask(results['mask_path'], results['zero_is_none'])
        return results


@TRANSFORMS.register_module()
class ShortSide(BaseTransform):
    """Resize the image to a short side; the mask stays as it is.

    Args:
        size: In pixels.
    """

    def __init__(self, size: int) -> None:
        self.size = size

    def transform(self, results: dict) -> dict:
        results['img'] = resized(results['img'], self.size / min(results['img'].shape[:2]))
        return results


@TRANSFORMS.register_module()
class RandomPatch(BaseTransform):
    """A square patch of image and mask, scaled and flipped at random, padded where it is too small.

    Args:
        size: Edge of the patch in pixels.
        scales: The short side becomes ``size`` times a number between these.
    """

    def __init__(self, size: int, scales: tuple[float, float] = (0.5, 2.0)) -> None:
        self.size, self.scales = size, scales

    def transform(self, results: dict) -> dict:
        """Draw from ``results['rng']``."""
        rng = results['rng']
        image, mask, size = results['img'], results['mask'], self.size
        scale = size / min(image.shape[:2]) * rng.uniform(*self.scales)
        image, mask = resized(image, scale), resized(mask, scale, cv2.INTER_NEAREST)
        if rng.random() < 0.5:
            image, mask = image[:, ::-1], mask[:, ::-1]
        pad = [(0, max(0, size - side)) for side in mask.shape]
        mask = np.pad(mask, pad, constant_values=IGNORED)
        image = np.pad(image, [*pad, (0, 0)])
        top, left = (int(rng.integers(side - size + 1)) for side in mask.shape)
        window = np.s_[top : top + size, left : left + size]
        results['img'], results['mask'] = image[window], mask[window]
        return results


@TRANSFORMS.register_module()
class PackMasked(BaseTransform):
    """What the model takes: ``inputs`` (3, H, W), and a sample with the mask and the size."""

    def transform(self, results: dict) -> dict:
        image = np.ascontiguousarray(results['img'].transpose(2, 0, 1))
        known: dict[str, Any] = {'path': results['img_path'], 'size': image.shape[1:]}
        sample = BaseDataElement(metainfo=known)
        if 'mask' in results:
            mask = torch.from_numpy(np.ascontiguousarray(results['mask'])).long()
            sample.set_field(mask, 'mask')
        return {'inputs': torch.from_numpy(image), 'data_samples': sample}


def resized(image: np.ndarray, scale: float, how: int = cv2.INTER_LINEAR) -> np.ndarray:
    """An image or mask, larger or smaller."""
    size = [max(1, round(scale * side)) for side in (image.shape[1], image.shape[0])]
    return cv2.resize(image, size, interpolation=how)
