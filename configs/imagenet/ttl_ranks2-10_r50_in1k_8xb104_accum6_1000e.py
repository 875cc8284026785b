# The released recipe for GPUs of 12 GB: six accumulations, 4992 images per step.
_base_ = 'ttl_ranks2-10_r50_in1k_8xb104_200e.py'

optim_wrapper = dict(accumulative_counts=6)
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-4, end=10, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=1000, end=1000, by_epoch=True),
]
train_cfg = dict(max_epochs=1000)
default_hooks = dict(target_update=dict(horizon_epochs=1000))
