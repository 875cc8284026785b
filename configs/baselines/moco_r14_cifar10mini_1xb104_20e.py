_base_ = 'mocov2_r14_cifar10mini_1xb104_20e.py'

model = dict(
    neck=dict(
        _delete_=True,
        type='LinearNeck',
        in_channels=64,
        out_channels=128,
        gap_dim=2,
        norm_cfg=None,
    ),
    head=dict(temperature=0.07),
)
