# Faster R-CNN FPN on COCO: train2017 to val2017, 90k iterations.
_base_ = ['mmdet::_base_/models/faster-rcnn_r50_fpn.py', '_base_/fpn_coco.py']

model = dict(
    data_preprocessor=_base_.preprocessor,
    backbone=_base_.backbone,
    neck=dict(norm_cfg=_base_.trained_norm),
    roi_head=dict(
        bbox_head=dict(
            type='Shared4Conv1FCBBoxHead', conv_out_channels=256, norm_cfg=_base_.trained_norm
        ),
    ),
)
