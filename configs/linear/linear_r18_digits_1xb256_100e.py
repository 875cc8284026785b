# The linear evaluation of the demo.
_base_ = [
    '../_base_/models/classifier_r50.py',
    '../_base_/datasets/digits_labeled.py',
    '../_base_/schedules/linear_100e.py',
]
model = dict(
    data_preprocessor=dict(to_rgb=False, **_base_.digits_pixels),
    backbone=dict(
        type='ResNet_CIFAR', depth=18, stem_channels=16, base_channels=16, frozen_stages=4
    ),
    head=dict(num_classes=10, in_channels=128),
)
