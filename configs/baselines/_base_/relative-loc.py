# The task: where does a patch lie relative to the one in the middle?
_base_ = 'mmselfsup.py'

model = dict(
    type='mmselfsup.RelativeLoc',
    data_preprocessor=dict(
        type='mmselfsup.RelativeLocDataPreprocessor', mean=(124, 117, 104), std=(59, 58, 58)
    ),
    neck=dict(type='mmselfsup.RelativeLocNeck', in_channels=2048, out_channels=4096),
    head=dict(
        type='mmselfsup.ClsHead',
        loss=dict(type='mmcls.CrossEntropyLoss'),
        in_channels=4096,
        num_classes=8,
        init_cfg=dict(type='Normal', std=0.005, layer='Linear'),
    ),
)
