# Planned by ttl plan from ttl_r50_8xb104_200e.py.
# 20 images, about 100 classes: 200 optimizer steps of 20 images.
_base_ = 'configs/ttl_r50_8xb104_200e.py'

train_dataloader = dict(
    batch_size=20,
    dataset=dict(
        _delete_=True,
        type='ttl_mm.ImageFolder',
        data_root='/tmp/pytest-of-root/pytest-54/test_shards_in_commands_plan_0/shards',
        with_label=False,
        pipeline=_base_.train_dataloader.dataset.pipeline,
    ),
)
model = dict(
    target_momentum=0.9,
    head=dict(deputy=3),
)
optim_wrapper = dict(
    accumulative_counts=1,
    optimizer=dict(lr=0.02308),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.0001, end=10, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=200, end=200, by_epoch=True),
]
train_cfg = dict(max_epochs=200)
default_hooks = dict(target_update=dict(horizon_epochs=200))
auto_scale_lr = dict(base_batch_size=1 * 20)
