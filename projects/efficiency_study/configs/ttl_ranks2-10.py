# The released head, ranks 2..10, at the setting that all methods of the study share.
_base_ = [
    '../../../configs/_base_/models/ttl_r50.py',
    '../../../configs/baselines/_base_/cifar10_mini.py',
]

model = dict(
    target_momentum=0.9,  # about 1,000 steps in all: a target at 0.99 would lag behind
    online_sizes=None,
    target_sizes=None,
    data_preprocessor=_base_.cifar10_pixels,
    backbone={{_base_.small_resnet}},
    # BatchNorm at the end: without it all projections start out nearly parallel
    neck=dict(in_channels=64, hid_channels=256, out_channels=128, with_last_bn=True),
    head=dict(
        deputy=(2, 10),
        predictor=dict(in_channels=128, hid_channels=256, out_channels=128),
    ),
)
default_hooks = dict(target_update=dict(type='ttl_mm.TargetUpdateHook', horizon_epochs=20))
