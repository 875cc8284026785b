"""Detection: transfer to mmdet's Mask R-CNN C4 and Faster R-CNN C4."""
