# CIFAR-10 on one device, 103 negatives as in the main recipe and no accumulation.
_base_ = [
    '../_base_/models/ttl_r50.py',
    '../_base_/datasets/cifar10.py',
    '../_base_/default_runtime.py',
]

model = dict(
    online_sizes=None,
    target_sizes=None,
    data_preprocessor=dict(to_rgb=False, **_base_.cifar10_pixels),  # mmpretrain reads it as RGB
    backbone=dict(type='ResNet_CIFAR', depth=18),
    neck=dict(in_channels=512, hid_channels=1024),
    head=dict(deputy=(2, 10), predictor=dict(hid_channels=1024)),
)
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='SGD', lr=0.06, momentum=0.9, weight_decay=5e-4),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, end=5, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=200, end=200, by_epoch=True, convert_to_iter_based=True),
]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=200)
default_hooks = dict(target_update=dict(type='ttl_mm.TargetUpdateHook', horizon_epochs=200))
env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
auto_scale_lr = dict(enable=False, base_batch_size=104)
