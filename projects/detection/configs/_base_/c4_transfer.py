# What both detectors share: everything in which fine-tuning a self-supervised ResNet-50 differs
# from mmdet's own C4 configs. The configs beside this folder merge these parts into mmdet's.

custom_imports = dict(imports=['ttl_mm.tasks.detection.parts'], allow_failed_imports=False)

_base_ = '../../../../configs/_base_/pixels/imagenet.py'

preprocessor = dict(  # as in pre-training; mmdet's C4 models take BGR with std 1
    mean=[*_base_.imagenet_pixels.mean],
    std=[*_base_.imagenet_pixels.std],
    bgr_to_rgb=True,
)

trained_norm = dict(type='SyncBN', requires_grad=True)
backbone = dict(
    frozen_stages=-1,
    norm_cfg=trained_norm,
    norm_eval=False,
    style='pytorch',  # stride in the 3x3 convolution
    zero_init_residual=False,  # matters only for random initialization
    init_cfg=dict(type='ttl_mm.PretrainedBackbone', checkpoint=None),
)
res5 = dict(
    type='ttl_mm.Res5',
    depth=50,
    norm_cfg=trained_norm,
    init_cfg=dict(type='ttl_mm.PretrainedBackbone', checkpoint=None, fresh=['norm.']),
)

# 8 GPUs x 2 images; run.sh keeps the 16 for other numbers of GPUs
sgd = dict(
    optimizer=dict(type='SGD', lr=0.02, momentum=0.9, weight_decay=1e-4),
    paramwise_cfg=dict(norm_decay_mult=0.0),
)

hooks = dict(
    logger=dict(log_metric_by_epoch=False),  # log validation figures by iteration
    precise_bn=dict(type='ttl_mm.PreciseBNHook', iterations=200),
    render=dict(type='ttl_mm.RenderPredictionsHook', images=8, score=0.3),
)
