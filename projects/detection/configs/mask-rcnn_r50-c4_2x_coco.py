# Mask R-CNN C4 on COCO: train2017 to val2017, 180k iterations, the reference's recipe.
_base_ = ['mmdet::mask_rcnn/mask-rcnn_r50-caffe-c4_1x_coco.py', '_base_/c4_transfer.py']

model = dict(
    data_preprocessor=_base_.preprocessor,
    backbone=_base_.backbone,
    roi_head=dict(shared_head=dict(_delete_=True, **_base_.res5)),
    train_cfg=dict(rpn=dict(allowed_border=-1)),
)

data_root = '{{$COCO_ROOT:data/coco/}}'
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True, with_mask=True),
    dict(
        type='RandomChoiceResize',
        scales=[(1200, side) for side in (640, 672, 704, 736, 768, 800, 832, 864, 880)],
        keep_ratio=True,
    ),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackDetInputs'),
]
train_dataloader = dict(
    sampler=dict(_delete_=True, type='ttl_mm.EpochSampler'),
    dataset=dict(data_root=data_root, pipeline=train_pipeline, filter_cfg=dict(min_size=0)),
)
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=f'{data_root}/annotations/instances_val2017.json')
test_evaluator = dict(ann_file=val_evaluator['ann_file'], classwise=True)

optim_wrapper = _base_.sgd
optim_wrapper.optimizer.lr = 0.05
max_iters = 180_000
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-4, by_epoch=False, begin=0, end=10_000),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=0, end=max_iters, T_max=max_iters),
]
train_cfg = dict(_delete_=True, type='ttl_mm.IterLoop', max_iters=max_iters, val_interval=30_000)
default_hooks = dict(
    checkpoint=dict(type='ttl_mm.CheckpointHook', by_epoch=False, interval=5_000, max_keep_ckpts=2),
    **_base_.hooks,
)
log_processor = dict(by_epoch=False)
