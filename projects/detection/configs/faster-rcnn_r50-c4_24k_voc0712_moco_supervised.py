# Baseline: ImageNet labels. `run.sh faster-rcnn_r50-c4_24k_voc0712_moco_supervised.py none GPUS`
_base_ = 'faster-rcnn_r50-c4_24k_voc0712_moco.py'

# torchvision's IMAGENET1K_V1 weights; how to get them: README.md, "Supervised baselines"
weights = 'checkpoints/resnet50-0676ba61.pth'
model = dict(
    backbone=dict(init_cfg=dict(checkpoint=weights)),
    roi_head=dict(shared_head=dict(init_cfg=dict(checkpoint=weights))),
)
