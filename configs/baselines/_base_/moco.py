_base_ = '../../_base_/pixels/imagenet.py'

model = dict(
    type='MoCo',
    queue_len=65536,
    feat_dim=128,
    momentum=0.001,
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor',
        non_blocking=True,
        to_rgb=True,
        **_base_.imagenet_pixels,
    ),
    backbone=dict(type='ResNet', depth=50, norm_cfg=dict(type='BN'), zero_init_residual=False),
    neck=dict(
        type='MoCoV2Neck',
        in_channels=2048,
        hid_channels=2048,
        out_channels=128,
        with_avg_pool=True,
    ),
    head=dict(type='ContrastiveHead', loss=dict(type='CrossEntropyLoss'), temperature=0.2),
)
