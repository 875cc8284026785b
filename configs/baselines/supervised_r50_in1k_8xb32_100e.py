# Trained with labels. The paper's "supervised + linear eval" is a recipe of configs/linear that
# starts from its checkpoint.
_base_ = [
    '../_base_/models/classifier_r50.py',
    '../_base_/datasets/imagenet_labeled.py',
    '../_base_/default_runtime.py',
]

model = dict(backbone=dict(init_cfg=[dict(type='Kaiming', layer=['Conv2d'])]))
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=1e-4))
param_scheduler = [dict(type='MultiStepLR', milestones=[30, 60, 90], by_epoch=True)]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=100, val_interval=1)
default_hooks = dict(
    result=dict(type='ttl_mm.ResultHook', protocol='supervised'),
    gauges=None,  # for pre-training only
    collapse=None,
)
env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
auto_scale_lr = dict(enable=False, base_batch_size=256)
