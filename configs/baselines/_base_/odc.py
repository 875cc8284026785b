# The classes are clusters of all images; a memory bank updates them in every iteration.
_base_ = 'mmselfsup.py'

model = dict(
    type='mmselfsup.ODC',
    backbone=dict(norm_cfg=dict(type='SyncBN')),
    neck=dict(type='mmselfsup.ODCNeck', in_channels=2048, hid_channels=512, out_channels=256),
    head=dict(
        type='mmselfsup.ClsHead',
        loss=dict(type='ttl_mm.ClusterLoss'),
        in_channels=256,
        num_classes=10000,
    ),
    memory_bank=dict(
        type='ttl_mm.ODCMemory',
        length=1281167,  # images of the dataset
        feat_dim=256,
        momentum=0.5,
        num_classes=10000,
        min_cluster=20,
    ),
)
