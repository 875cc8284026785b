_base_ = ['_base_/rotation-pred.py', '_base_/cifar10_mini.py']

model = dict(
    data_preprocessor=_base_.cifar10_pixels,
    backbone={{_base_.small_resnet}},
    head=dict(in_channels=64),
)
train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.LoadImage'),
            dict(type='RandomResizedCrop', scale=32, crop_ratio_range=(0.2, 1.0)),
            dict(type='RandomFlip', prob=0.5),
            dict(type='mmselfsup.RotationWithLabels'),
            dict(type='mmselfsup.PackSelfSupInputs', pseudo_label_keys=['rot_label']),
        ],
    ),
)
