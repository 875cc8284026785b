# Twice as long.
_base_ = 'retinanet_r50-fpn_1x_coco.py'

param_scheduler = _base_.twice
train_cfg = dict(max_iters=180_000)
