# To try every step in minutes on a CPU, on the images that `ttl reid make data/reid_tiny` draws.
_base_ = 'ttl_ranks2-10_r50_sysu30k_4xb196_accum8_10e.py'

model = dict(
    online_sizes=None,
    target_sizes=None,
    backbone=dict(depth=18, base_channels=16, stem_channels=16),
    neck=dict(in_channels=128, hid_channels=256, out_channels=64),
    head=dict(predictor=dict(in_channels=64, hid_channels=256, out_channels=64)),
)
train_dataloader = dict(
    batch_size=16,
    num_workers=2,
    dataset=dict(
        data_root='data/reid_tiny/sysu_train_set_all',
        list_file='data/reid_tiny/meta/train.txt',
        test_root='data/reid_tiny',
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[dict(size=64), dict(size=64, blur=0.1)]),
            dict(type='PackInputs'),
        ],
    ),
)
optim_wrapper = dict(
    accumulative_counts=1,
    optimizer=dict(_delete_=True, type='SGD', lr=0.05, momentum=0.9, weight_decay=1e-4),
)
param_scheduler = [
    dict(type='CosineAnnealingLR', T_max=8, end=8, by_epoch=True, convert_to_iter_based=True)
]
train_cfg = dict(max_epochs=8)
default_hooks = dict(logger=dict(interval=5), target_update=dict(horizon_epochs=8))
auto_scale_lr = dict(base_batch_size=16)
