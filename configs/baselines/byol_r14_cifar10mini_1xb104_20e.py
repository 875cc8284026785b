_base_ = ['_base_/byol.py', '_base_/cifar10_mini.py']

model = dict(
    base_momentum=0.1,  # 1 - momentum; with 0.01 the target would lag behind in so few steps
    data_preprocessor=_base_.cifar10_pixels,
    backbone={{_base_.small_resnet}},
    # BatchNorm at the end: without it all projections start out nearly parallel
    neck=dict(in_channels=64, hid_channels=256, out_channels=128, with_last_bn=True),
    head=dict(predictor=dict(in_channels=128, hid_channels=256, out_channels=128)),
)
