# Twice as long.
_base_ = 'mask-rcnn_r50-fpn_1x_coco.py'

param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=1_000),
    dict(type='MultiStepLR', by_epoch=False, milestones=[120_000, 160_000], gamma=0.1),
]
train_cfg = dict(max_iters=180_000)
