_base_ = [
    '_base_/npid.py',
    '../_base_/datasets/imagenet.py',
    '../_base_/default_runtime.py',
]

crop = dict(type='RandomResizedCrop', scale=224, crop_ratio_range=(0.2, 1.0), backend='pillow')
gray = dict(
    type='RandomGrayscale', prob=0.2, keep_channels=True, channel_weights=(0.114, 0.587, 0.2989)
)
train_dataloader = dict(
    batch_size=32,
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.LoadImage'),
            crop,
            gray,
            dict(type='ColorJitter', brightness=0.4, contrast=0.4, saturation=0.4, hue=0.4),
            dict(type='RandomFlip', prob=0.5),
            dict(type='mmselfsup.PackSelfSupInputs', algorithm_keys=['sample_idx']),
        ],
    ),
)
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.03, momentum=0.9, weight_decay=1e-4))
param_scheduler = [dict(type='MultiStepLR', milestones=[120, 160], by_epoch=True)]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=200)
env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
auto_scale_lr = dict(enable=False, base_batch_size=8 * 32)
