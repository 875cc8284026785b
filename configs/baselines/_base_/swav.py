_base_ = '../../_base_/pixels/imagenet.py'

model = dict(
    type='SwAV',
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor',
        non_blocking=True,
        to_rgb=True,
        **_base_.imagenet_pixels,
    ),
    backbone=dict(type='ResNet', depth=50, norm_cfg=dict(type='SyncBN'), zero_init_residual=True),
    neck=dict(
        type='SwAVNeck',
        in_channels=2048,
        hid_channels=2048,
        out_channels=128,
        with_avg_pool=True,
    ),
    head=dict(
        type='SwAVHead',
        loss=dict(type='SwAVLoss', feat_dim=128, epsilon=0.05, temperature=0.1, num_crops=[2]),
    ),
)
