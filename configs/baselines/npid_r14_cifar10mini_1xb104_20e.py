_base_ = ['_base_/npid.py', '_base_/cifar10_mini.py']

model = dict(
    data_preprocessor=_base_.cifar10_pixels,
    neg_num=512,  # a twentieth of all images, as on ImageNet
    backbone={{_base_.small_resnet}},
    neck=dict(in_channels=64),
    memory_bank=dict(length=10000),
)
train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[{{_base_.view}}]),
            dict(type='ttl_mm.PackSelfSupViews', algorithm_keys=['sample_idx']),
        ],
    ),
)
