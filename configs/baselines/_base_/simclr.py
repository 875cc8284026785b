_base_ = '../../_base_/pixels/imagenet.py'

model = dict(
    type='SimCLR',
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor',
        non_blocking=True,
        to_rgb=True,
        **_base_.imagenet_pixels,
    ),
    backbone=dict(type='ResNet', depth=50, norm_cfg=dict(type='SyncBN'), zero_init_residual=True),
    neck=dict(
        type='NonLinearNeck',
        in_channels=2048,
        hid_channels=2048,
        out_channels=128,
        num_layers=2,
        with_avg_pool=True,
    ),
    head=dict(type='ContrastiveHead', loss=dict(type='CrossEntropyLoss'), temperature=0.1),
)
