# Baseline: no pre-training. `run.sh mask-rcnn_r50-c4_2x_coco_moco_random.py none GPUS`
_base_ = 'mask-rcnn_r50-c4_2x_coco_moco.py'

model = dict(backbone=dict(init_cfg=None), roi_head=dict(shared_head=dict(init_cfg=None)))
