# The first MoCo: a linear projection, weaker views, temperature 0.07, learning rate in steps.
_base_ = 'mocov2_r50_in1k_8xb32_200e.py'

model = dict(
    neck=dict(
        _delete_=True,
        type='LinearNeck',
        in_channels=2048,
        out_channels=128,
        gap_dim=2,
        norm_cfg=None,
    ),
    head=dict(temperature=0.07),
)
view = dict(num=2, area=(0.2, 1.0), jitter=1.0, saturation=0.4, hue=0.4, blur=0.0)
train_dataloader = dict(
    dataset=dict(
        pipeline=[dict(type='ttl_mm.RandomViews', views=[view]), dict(type='PackInputs')],
    ),
)
param_scheduler = [dict(type='MultiStepLR', milestones=[120, 160], by_epoch=True)]
