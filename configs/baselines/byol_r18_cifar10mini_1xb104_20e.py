_base_ = ['_base_/byol.py', '_base_/cifar10_mini.py']

model = dict(
    backbone={{_base_.small_resnet}},
    neck=dict(in_channels=64, hid_channels=256, out_channels=128),
    head=dict(predictor=dict(in_channels=128, hid_channels=256, out_channels=128)),
)
