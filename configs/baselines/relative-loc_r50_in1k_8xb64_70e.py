# The published figure was trained for 70 epochs, although the paper's table says 200.
_base_ = [
    '_base_/relative-loc.py',
    '../_base_/datasets/imagenet.py',
    '../_base_/default_runtime.py',
]

train_dataloader = dict(
    batch_size=64,
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.LoadImage'),
            dict(type='Resize', scale=292),
            dict(type='RandomCrop', crop_size=255),
            dict(type='RandomGrayscale', prob=0.66, keep_channels=True),
            dict(type='mmselfsup.RandomPatchWithLabels'),
            dict(type='mmselfsup.PackSelfSupInputs', pseudo_label_keys=['patch_label']),
        ],
    ),
)
optim_wrapper = dict(
    constructor='ttl_mm.OptimWrapperConstructor',
    optimizer=dict(type='SGD', lr=0.2, momentum=0.9, weight_decay=1e-4),
    paramwise_cfg=dict(custom_keys=dict(neck=dict(decay_mult=5.0), head=dict(decay_mult=5.0))),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=5, by_epoch=True, convert_to_iter_based=True),
    dict(type='MultiStepLR', milestones=[30, 50], by_epoch=True),
]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=70)
env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
auto_scale_lr = dict(enable=False, base_batch_size=8 * 64)
