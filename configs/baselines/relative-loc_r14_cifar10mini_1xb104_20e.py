# Images are enlarged to 55 pixels; patches of 12 fill three quarters of a cell, as on ImageNet.
_base_ = ['_base_/relative-loc.py', '_base_/cifar10_mini.py']

model = dict(
    data_preprocessor=_base_.cifar10_pixels,
    backbone={{_base_.small_resnet}},
    neck=dict(in_channels=64, out_channels=256),
    head=dict(in_channels=256),
)
train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.LoadImage'),
            dict(type='Resize', scale=55),
            dict(type='RandomCrop', crop_size=48),
            dict(type='RandomGrayscale', prob=0.66, keep_channels=True),
            dict(type='ttl_mm.PatchesWithLabels', jitter=4),
            dict(type='mmselfsup.PackSelfSupInputs', pseudo_label_keys=['patch_label']),
        ],
    ),
)
