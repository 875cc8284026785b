# The released architecture and initialization. mmpretrain's defaults differ in every line marked
# with *; its BYOL recipe also differs in the bias of the last layers.
_base_ = '../pixels/imagenet.py'

batch_norm = dict(type='Constant', layer=['_BatchNorm'], val=1, bias=0)
norm_cfg = dict(type='SyncBN')
mlp = dict(
    type='NonLinearNeck',
    hid_channels=4096,
    out_channels=256,
    num_layers=2,
    with_bias=True,
    with_last_bias=True,  # *
    with_last_bn=False,
    norm_cfg=norm_cfg,
)

model = dict(
    type='ttl_mm.TTLAlgorithm',
    target_momentum=0.99,
    online_sizes=(96, 224),
    target_sizes=(128, 224),
    channels_last=True,
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor',
        non_blocking=True,  # of pinned memory, while the GPU computes
        to_rgb=True,
        **_base_.imagenet_pixels,
    ),
    backbone=dict(
        type='ResNet',
        depth=50,
        norm_cfg=norm_cfg,
        zero_init_residual=False,  # *
        init_cfg=[
            dict(type='Kaiming', layer=['Conv2d'], mode='fan_in', nonlinearity='relu'),  # *
            batch_norm,
        ],
    ),
    neck=dict(
        mlp,
        in_channels=2048,
        with_avg_pool=True,
        init_cfg=[
            dict(type='Kaiming', layer=['Linear'], mode='fan_in', nonlinearity='relu'),  # *
            batch_norm,
        ],
    ),
    head=dict(
        type='ttl_mm.TruncatedTripletHead',
        deputy='median',
        predictor=dict(
            mlp,
            in_channels=256,
            with_avg_pool=False,
            init_cfg=[dict(type='Normal', layer=['Linear'], std=0.01), batch_norm],  # *
        ),
    ),
)
