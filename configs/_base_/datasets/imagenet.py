# Any folder of images will do. `imagenet_stock.py` in place of this file gives the same views
# through mmpretrain's own transforms, several times slower (docs/data.md).
train_dataloader = dict(
    batch_size=104,
    num_workers=8,
    persistent_workers=True,
    pin_memory=True,
    drop_last=True,  # a last batch of one image would end the run in BatchNorm
    sampler=dict(type='ttl_mm.EpochSampler'),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ttl_mm.ImageFolder',
        data_root='data/imagenet/train',
        pipeline=[
            dict(
                type='ttl_mm.RandomViews',
                views=[dict(size=224), dict(size=224, blur=0.1, solarize=0.2)],
            ),
            dict(type='PackInputs'),
        ],
    ),
)
