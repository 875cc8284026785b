# The recipe of MoCo, by which most published figures were made. That of OpenSelfSup is the same but
# for the long side, at most 1200.
_base_ = 'mask-rcnn_r50-c4_2x_coco.py'

train_pipeline = _base_.train_pipeline
train_pipeline[2].scales = [(1333, side) for side in (640, 672, 704, 736, 768, 800)]
train_dataloader = dict(dataset=dict(pipeline=train_pipeline))
optim_wrapper = dict(optimizer=dict(lr=0.02))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=1_000),
    dict(type='MultiStepLR', by_epoch=False, milestones=[120_000, 160_000], gamma=0.1),
]
