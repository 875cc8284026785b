_base_ = [
    '../_base_/models/classifier_r50.py',
    '../_base_/datasets/cifar10_labeled.py',
    '../_base_/schedules/linear_100e.py',
]
model = dict(
    data_preprocessor=dict(to_rgb=False, **_base_.cifar10_pixels),  # as in pre-training
    backbone=dict(type='ResNet_CIFAR', depth=18, frozen_stages=4),
    head=dict(num_classes=10, in_channels=512),
)
