_base_ = '../pixels/imagenet.py'

model = dict(
    type='ImageClassifier',
    data_preprocessor=dict(
        type='ClsDataPreprocessor',
        to_rgb=True,
        **_base_.imagenet_pixels,
    ),
    backbone=dict(
        type='ResNet',
        depth=50,
        # --cfg-options model.backbone.init_cfg.checkpoint=FILE; one that does not fit is refused
        init_cfg=dict(type='ttl_mm.PretrainedBackbone', checkpoint=None),
    ),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead',
        num_classes=1000,
        in_channels=2048,
        loss=dict(type='CrossEntropyLoss'),
        topk=(1, 5),
        init_cfg=dict(type='Normal', layer='Linear', std=0.01, bias=0),
    ),
)
