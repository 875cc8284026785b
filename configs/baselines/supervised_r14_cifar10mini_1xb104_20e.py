# Trained with labels: the same crops and flips as the other methods, but no change of color.
_base_ = ['../_base_/models/classifier_r50.py', '_base_/cifar10_mini.py']

model = dict(
    backbone={{_base_.small_resnet}},
    head=dict(num_classes=10, in_channels=64),
    data_preprocessor=_base_.cifar10_pixels,
)
train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.LoadImage'),
            dict(type='RandomResizedCrop', scale=32, crop_ratio_range=(0.2, 1.0)),
            dict(type='RandomFlip', prob=0.5),
            dict(type='PackInputs'),
        ],
    ),
)
