"""VOC annotations as detectron2 trains on them."""

from mmcv.transforms import BaseTransform

from ttl_mm.registry import TRANSFORMS


@TRANSFORMS.register_module()
class VOCTrainingBoxes(BaseTransform):
    """Train on difficult objects too, and on boxes that survive a flip.

    mmdet marks difficult objects as ignored, and the assigners then take them for background;
    detectron2, and with it every published figure of this protocol, trains on them.

    mmdet's boxes end at the left edge of their last pixel (0-based inclusive corners), and a
    horizontal flip, which maps x to width - x, moves them by one pixel. Ending them at its right
    edge makes a flipped box cover the flipped pixels.

    Put it after ``LoadAnnotations`` and before anything that moves boxes. Evaluate with
    ``VOCDetectionMetric(extents=True)``.
    """

    def transform(self, results: dict) -> dict:
        """Clear the flags of ignored objects and move the far corners by one pixel."""
        results['gt_ignore_flags'][:] = False
        results['gt_bboxes'].tensor[:, 2:] += 1
        return results
