_base_ = ['_base_/odc.py', '_base_/cifar10_mini_clusters.py']

model = dict(
    data_preprocessor=_base_.cifar10_pixels,
    backbone={{_base_.small_resnet}},
    neck=dict(in_channels=64, hid_channels=256, out_channels=128),
    head=dict(in_channels=128, num_classes=100),
    memory_bank=dict(length=10000, feat_dim=128, num_classes=100),
)
train_dataloader = dict(sampler=dict(replace=True))
default_hooks = dict(
    cluster=dict(interval=None, reweight=True),
    odc=dict(type='ttl_mm.ODCHook'),
)
