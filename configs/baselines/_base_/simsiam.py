_base_ = '../../_base_/pixels/imagenet.py'

model = dict(
    type='SimSiam',
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
        out_channels=2048,
        num_layers=3,
        with_last_bn_affine=False,
        with_avg_pool=True,
    ),
    head=dict(
        type='LatentPredictHead',
        loss=dict(type='CosineSimilarityLoss'),
        predictor=dict(
            type='NonLinearNeck',
            in_channels=2048,
            hid_channels=512,
            out_channels=2048,
            with_avg_pool=False,
            with_last_bn=False,
            with_last_bias=True,
        ),
    ),
)
