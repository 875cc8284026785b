# Views of 32 px: no blur, as usual at this size. mmpretrain downloads the data.
_base_ = '../pixels/cifar10.py'

view = dict(size=32, area=(0.2, 1.0), blur=0.0)

train_dataloader = dict(
    batch_size=104,
    num_workers=4,
    persistent_workers=True,
    pin_memory=True,
    drop_last=True,
    sampler=dict(type='ttl_mm.EpochSampler'),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='CIFAR10',
        data_root='data/cifar10',
        split='train',
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[view, dict(view, solarize=0.2)], rgb=True),
            dict(type='PackInputs'),
        ],
    ),
)
