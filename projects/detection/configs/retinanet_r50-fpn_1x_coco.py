# RetinaNet on COCO: train2017 to val2017, 90k iterations. Half the rate of the others, and no norms
# in its head, which sees five levels: both as in mmdet's own config.
_base_ = ['mmdet::retinanet/retinanet_r50_fpn_1x_coco.py', '_base_/fpn_coco.py']

model = dict(
    data_preprocessor=_base_.preprocessor,
    backbone=_base_.backbone,
    neck=dict(norm_cfg=_base_.trained_norm),
)

data_root = '{{$COCO_ROOT:data/coco/}}'
train_dataloader = dict(
    sampler=dict(_delete_=True, type='ttl_mm.EpochSampler'),
    dataset=dict(
        data_root=data_root,
        pipeline=[_base_.around[0], _base_.boxes, *_base_.around[1:]],
        filter_cfg=dict(min_size=0),
    ),
)
val_dataloader = dict(dataset=dict(data_root=data_root))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=f'{data_root}/annotations/instances_val2017.json')
test_evaluator = dict(ann_file=val_evaluator['ann_file'], classwise=True)

optim_wrapper = _base_.sgd
optim_wrapper.optimizer.lr = 0.01
param_scheduler = [_base_.one_x.warm_up, _base_.one_x.drops]
train_cfg = dict(_delete_=True, **_base_.one_x.loop)
default_hooks = dict(checkpoint=_base_.one_x.save, **_base_.hooks)
log_processor = dict(by_epoch=False)
