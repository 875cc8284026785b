# Faster R-CNN C4 on VOC: trainval 2007 + 2012 to test 2007, 24k iterations, the reference's recipe.
_base_ = ['mmdet::pascal_voc/faster-rcnn_r50-caffe-c4_ms-18k_voc0712.py', '_base_/c4_transfer.py']

model = dict(
    data_preprocessor=_base_.preprocessor,
    backbone=_base_.backbone,
    roi_head=dict(shared_head=dict(_delete_=True, **_base_.res5)),
)

data_root = '{{$VOC_ROOT:data/VOCdevkit/}}'
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='ttl_mm.VOCTrainingBoxes'),
    dict(
        type='RandomChoiceResize',
        scales=[(1333, side) for side in (*range(480, 865, 32), 880)],
        keep_ratio=True,
    ),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackDetInputs'),
]
train_dataloader = dict(
    sampler=dict(_delete_=True, type='ttl_mm.EpochSampler'),
    dataset=dict(
        _delete_=True,
        type='ConcatDataset',
        ignore_keys=['dataset_type'],  # VOC2007 and VOC2012 have the same classes
        datasets=[
            dict(
                type='VOCDataset',
                data_root=data_root,
                ann_file=f'{year}/ImageSets/Main/trainval.txt',
                data_prefix=dict(sub_data_root=f'{year}/'),
                filter_cfg=dict(filter_empty_gt=True),
                pipeline=train_pipeline,
            )
            for year in ('VOC2007', 'VOC2012')
        ],
    ),
)
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
val_evaluator = dict(_delete_=True, type='ttl_mm.VOCDetectionMetric', extents=True)
test_evaluator = val_evaluator

optim_wrapper = _base_.sgd
optim_wrapper.optimizer.lr = 0.2
max_iters = 24_000
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-4, by_epoch=False, begin=0, end=1_200),
    dict(type='CosineAnnealingLR', by_epoch=False, begin=0, end=max_iters, T_max=max_iters),
]
train_cfg = dict(type='ttl_mm.IterLoop', max_iters=max_iters, val_interval=4_000)
default_hooks = dict(
    checkpoint=dict(type='ttl_mm.CheckpointHook', interval=2_000, max_keep_ckpts=2), **_base_.hooks
)
