# What `ttl train` adapts to your images and your machine: one network instead of two, no predictor
# (so positive and deputy have equal weight), a soft deputy among the nearest negatives, and Muon.
_base_ = [
    '../_base_/models/ttl_fast_r50.py',
    '../_base_/datasets/imagenet.py',
    '../_base_/default_runtime.py',
]

view = dict(size=96, area=(0.2, 1.0), blur=0.1)
train_dataloader = dict(
    num_workers=2,
    dataset=dict(
        data_root='data/images',
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[view, dict(view, solarize=0.2)]),
            dict(type='PackInputs'),
        ],
    ),
)
model = dict(
    backbone=dict(depth=18),
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
env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
auto_scale_lr = dict(enable=False, base_batch_size=104)
default_hooks = dict(judge=dict(type='ttl_mm.JudgeHook'))
