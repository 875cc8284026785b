# Every image is a class of its own; the other classes come from a memory bank.
_base_ = 'mmselfsup.py'

model = dict(
    type='mmselfsup.NPID',
    neg_num=65536,
    backbone=dict(norm_cfg=dict(type='SyncBN')),
    neck=dict(type='mmselfsup.LinearNeck', in_channels=2048, out_channels=128),
    head=dict(
        type='mmselfsup.ContrastiveHead',
        loss=dict(type='mmcls.CrossEntropyLoss'),
        temperature=0.07,
    ),
    memory_bank=dict(
        type='mmselfsup.SimpleMemory',
        length=1281167,  # images of the dataset
        feat_dim=128,
        momentum=0.5,
    ),
)
