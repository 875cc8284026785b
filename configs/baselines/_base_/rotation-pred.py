# The task: by which of four angles was the image rotated?
_base_ = 'mmselfsup.py'

model = dict(
    type='mmselfsup.RotationPred',
    data_preprocessor=dict(type='mmselfsup.RotationPredDataPreprocessor'),
    backbone=dict(norm_cfg=dict(type='SyncBN')),
    head=dict(
        type='mmselfsup.ClsHead',
        loss=dict(type='mmcls.CrossEntropyLoss'),
        with_avg_pool=True,
        in_channels=2048,
        num_classes=4,
    ),
)
