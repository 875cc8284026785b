# CIFAR-10 on one device: views of 24 px for three quarters of the epochs, then 32 px.
_base_ = [
    '../_base_/models/ttl_fast_r50.py',
    '../_base_/datasets/cifar10.py',
    '../_base_/default_runtime.py',
]

small_view = dict(size=24, later_sizes=[(75, 32)], area=(0.2, 1.0), blur=0.0, num=2)
train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[small_view], rgb=True),
            dict(type='PackInputs'),
        ],
    ),
)
model = dict(
    data_preprocessor=dict(to_rgb=False, **_base_.cifar10_pixels),  # mmpretrain reads it as RGB
    backbone=dict(type='ResNet_CIFAR', depth=18),
    neck=dict(in_channels=512, hid_channels=1024, out_channels=128),
)
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='ttl_mm.Muon', lr=0.3, momentum=0.9, weight_decay=5e-4, matrix_rate=0.3),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, end=5, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=100, end=100, by_epoch=True, convert_to_iter_based=True),
]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=100)
env_cfg = dict(cudnn_benchmark=True)  # two sizes in the whole run
auto_scale_lr = dict(enable=False, base_batch_size=104)
