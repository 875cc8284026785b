_base_ = ['_base_/moco.py', '_base_/cifar10_mini.py']

model = dict(
    queue_len=40 * 104,
    momentum=0.01,
    data_preprocessor=_base_.cifar10_pixels,
    backbone={{_base_.small_resnet}},
    neck=dict(in_channels=64, hid_channels=256),
)
