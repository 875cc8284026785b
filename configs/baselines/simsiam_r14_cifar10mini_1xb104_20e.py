_base_ = ['_base_/simsiam.py', '_base_/cifar10_mini.py']

model = dict(
    data_preprocessor=_base_.cifar10_pixels,
    backbone={{_base_.small_resnet}},
    neck=dict(in_channels=64, hid_channels=256, out_channels=256),
    head=dict(predictor=dict(in_channels=256, hid_channels=64, out_channels=256)),
)
