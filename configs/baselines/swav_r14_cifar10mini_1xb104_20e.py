_base_ = ['_base_/swav.py', '_base_/cifar10_mini.py']

model = dict(
    data_preprocessor=_base_.cifar10_pixels,
    backbone={{_base_.small_resnet}},
    neck=dict(in_channels=64, hid_channels=256),
    head=dict(loss=dict(num_prototypes=100)),
)
# the prototypes are frozen during the first epoch
default_hooks = dict(
    swav=dict(
        type='SwAVHook',
        priority='VERY_HIGH',
        batch_size=104,
        frozen_layers_cfg=dict(prototypes=96),
    ),
)
