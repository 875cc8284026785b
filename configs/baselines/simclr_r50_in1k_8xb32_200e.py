_base_ = ['_base_/simclr.py', '_base_/imagenet.py']

strong = dict(brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2, blur=0.5)
train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[dict(strong, num=2)]),
            dict(type='PackInputs'),
        ],
    ),
)
optim_wrapper = dict(
    optimizer=dict(type='ttl_mm.LARS', lr=0.3, momentum=0.9, weight_decay=1e-6),
    paramwise_cfg=dict(
        custom_keys={
            'bn': dict(decay_mult=0, lars_exclude=True),
            'bias': dict(decay_mult=0, lars_exclude=True),
            'downsample.1': dict(decay_mult=0, lars_exclude=True),
        }
    ),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-4, end=10, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=190, begin=10, end=200, by_epoch=True),
]
