# The recipe of MoCo and OpenSelfSup, by which most published figures were made.
_base_ = 'faster-rcnn_r50-c4_24k_voc0712.py'

train_pipeline = _base_.train_pipeline
train_pipeline[3].scales = [(1333, side) for side in range(480, 801, 32)]
_base_.train_dataloader.dataset.datasets[0].pipeline = train_pipeline
_base_.train_dataloader.dataset.datasets[1].pipeline = train_pipeline
optim_wrapper = dict(optimizer=dict(lr=0.02))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=100),
    dict(type='MultiStepLR', by_epoch=False, milestones=[18_000, 22_000], gamma=0.1),
]
