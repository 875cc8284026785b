_base_ = 'ttl_ranks2-10_r50_in1k_8xb104_200e.py'

param_scheduler = [
    dict(type='LinearLR', start_factor=1e-4, end=10, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=700, end=700, by_epoch=True),
]
train_cfg = dict(max_epochs=700)
default_hooks = dict(target_update=dict(horizon_epochs=700))
