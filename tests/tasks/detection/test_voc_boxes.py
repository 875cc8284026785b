"""VOC annotations for training: difficult objects, and boxes that survive a flip."""

import ttl_mm.registry  # noqa: F401  isort: skip

import numpy as np
import torch
from mmdet.datasets.transforms import RandomFlip
from mmdet.structures.bbox import HorizontalBoxes

from ttl_mm.tasks.detection.voc_boxes import VOCTrainingBoxes


def voc_sample(first: int, last: int, width: int = 12) -> dict:
    """An image whose pixels ``first`` to ``last`` of row 1 are an object, in mmdet's corners."""
    image = np.zeros((3, width, 3), dtype=np.uint8)
    image[1, first : last + 1] = 255
    return dict(
        img=image,
        img_shape=image.shape[:2],
        gt_bboxes=HorizontalBoxes(torch.tensor([[first, 1, last, 1]], dtype=torch.float32)),
        gt_bboxes_labels=np.array([0]),
        gt_ignore_flags=np.array([True]),
    )


def test_a_flipped_box_covers_the_flipped_pixels() -> None:
    for direction in ('horizontal', 'vertical'):
        results = VOCTrainingBoxes()(voc_sample(2, 5))
        assert not results['gt_ignore_flags'].any()  # difficult objects are no longer ignored
        results = RandomFlip(prob=1.0, direction=direction)(results)
        left, top, right, bottom = (int(v) for v in results['gt_bboxes'].tensor[0])
        inside = results['img'][top:bottom, left:right]
        assert (inside == 255).all()
        assert inside[..., 0].sum() == results['img'][..., 0].sum()  # no object pixel is outside
