# Baseline: no pre-training. `run.sh faster-rcnn_r50-c4_24k_voc0712_moco_random.py none GPUS`
_base_ = 'faster-rcnn_r50-c4_24k_voc0712_moco.py'

model = dict(backbone=dict(init_cfg=None), roi_head=dict(shared_head=dict(init_cfg=None)))
