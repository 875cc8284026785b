# What the FPN detectors share beside c4_transfer.py: COCO with several scales, and the schedules of
# MoCo and mmpretrain for self-supervised weights. Norms are trained, in neck and heads too.
_base_ = 'c4_transfer.py'

boxes = dict(type='LoadAnnotations', with_bbox=True)
masks = dict(type='LoadAnnotations', with_bbox=True, with_mask=True)
around = (
    dict(type='LoadImageFromFile'),
    dict(
        type='RandomChoiceResize',
        scales=[(1333, side) for side in (640, 672, 704, 736, 768, 800)],
        keep_ratio=True,
    ),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackDetInputs'),
)
one_x = dict(
    warm_up=dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=1_000),
    drops=dict(type='MultiStepLR', by_epoch=False, milestones=[60_000, 80_000], gamma=0.1),
    loop=dict(type='ttl_mm.IterLoop', max_iters=90_000, val_interval=30_000),
    save=dict(type='ttl_mm.CheckpointHook', by_epoch=False, interval=5_000, max_keep_ckpts=2),
)
