_base_ = '../default_runtime.py'

optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.15, momentum=0.9, weight_decay=0))
# mmengine multiplies the two: the cosine starts at epoch 0, under the warm-up.
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-4, end=10, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=100, end=100, by_epoch=True),
]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=100, val_interval=1)
default_hooks = dict(
    frozen=dict(type='ttl_mm.FrozenBackboneHook'),
    result=dict(type='ttl_mm.ResultHook', protocol='linear'),
    checkpoint=dict(save_best='accuracy/top1'),
    gauges=None,  # for pre-training only
    collapse=None,
)
env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
auto_scale_lr = dict(enable=False, base_batch_size=256)
