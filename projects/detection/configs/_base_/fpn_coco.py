# What the FPN detectors share: COCO with several scales, and the schedules of MoCo and mmpretrain
# for self-supervised weights. Norms are trained, in neck and heads too. A config beside this folder
# adds a model of mmdet.
_base_ = [
    'mmdet::_base_/datasets/coco_detection.py',
    'mmdet::_base_/schedules/schedule_1x.py',
    'mmdet::_base_/default_runtime.py',
    'c4_transfer.py',
]

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
boxes = dict(type='LoadAnnotations', with_bbox=True)

data_root = '{{$COCO_ROOT:data/coco/}}'
train_dataloader = dict(
    sampler=dict(_delete_=True, type='ttl_mm.EpochSampler'),
    dataset=dict(
        data_root=data_root,
        pipeline=[around[0], boxes, *around[1:]],
        filter_cfg=dict(min_size=0),
    ),
)
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=f'{data_root}/annotations/instances_val2017.json')
test_evaluator = dict(ann_file=val_evaluator['ann_file'], classwise=True)

optim_wrapper = _base_.sgd
warm_up = dict(type='LinearLR', start_factor=1e-3, by_epoch=False, begin=0, end=1_000)
param_scheduler = [
    warm_up,
    dict(type='MultiStepLR', by_epoch=False, milestones=[60_000, 80_000], gamma=0.1),
]
train_cfg = dict(_delete_=True, type='ttl_mm.IterLoop', max_iters=90_000, val_interval=30_000)
save = dict(type='ttl_mm.CheckpointHook', by_epoch=False, interval=5_000, max_keep_ckpts=2)
default_hooks = dict(checkpoint=save, **_base_.hooks)
log_processor = dict(by_epoch=False)
twice = [
    warm_up,
    dict(type='MultiStepLR', by_epoch=False, milestones=[120_000, 160_000], gamma=0.1),
]
