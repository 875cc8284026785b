# RetinaNet on COCO: train2017 to val2017, 90k iterations. Half the rate of the others, and no norms
# in its head, which sees five levels: both as in mmdet's own config.
_base_ = ['mmdet::_base_/models/retinanet_r50_fpn.py', '_base_/fpn_coco.py']

model = dict(
    data_preprocessor=_base_.preprocessor,
    backbone=_base_.backbone,
    neck=dict(norm_cfg=_base_.trained_norm),
)

optim_wrapper = dict(optimizer=dict(lr=0.01))
