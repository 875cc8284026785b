_base_ = '../../_base_/pixels/imagenet.py'

mlp = dict(
    type='NonLinearNeck',
    hid_channels=4096,
    out_channels=256,
    num_layers=2,
    with_bias=True,
    with_last_bn=False,
)
model = dict(
    type='BYOL',
    base_momentum=0.01,  # mmpretrain's 1 - momentum
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor',
        non_blocking=True,
        to_rgb=True,
        **_base_.imagenet_pixels,
    ),
    backbone=dict(type='ResNet', depth=50, norm_cfg=dict(type='SyncBN'), zero_init_residual=False),
    neck=dict(mlp, in_channels=2048, with_avg_pool=True),
    head=dict(
        type='LatentPredictHead',
        predictor=dict(mlp, in_channels=256, with_avg_pool=False),
        loss=dict(type='CosineSimilarityLoss'),
    ),
)
