# The views, optimizer and schedule of MoCo v2 and SimSiam.
_base_ = 'imagenet.py'

train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(
                type='ttl_mm.RandomViews',
                views=[dict(num=2, area=(0.2, 1.0), saturation=0.4, blur=0.5)],
            ),
            dict(type='PackInputs'),
        ],
    ),
)
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.03, momentum=0.9, weight_decay=1e-4))
param_scheduler = [dict(type='CosineAnnealingLR', T_max=200, end=200, by_epoch=True)]
