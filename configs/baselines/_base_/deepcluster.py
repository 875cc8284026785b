# Before every epoch all images are clustered; the clusters are the classes of that epoch.
_base_ = 'mmselfsup.py'

model = dict(
    type='mmselfsup.DeepCluster',
    neck=dict(type='mmselfsup.AvgPool2dNeck'),
    head=dict(
        type='mmselfsup.ClsHead',
        loss=dict(type='ttl_mm.ClusterLoss'),
        in_channels=2048,
        num_classes=10000,
    ),
)
