# One sub-folder per class, below train and val. Images as in the paper's linear evaluation: random
# crops and flips for training, the center of the image for testing.
load = dict(type='ttl_mm.LoadImage')
bilinear = dict(interpolation='bilinear', backend='pillow')

train_dataloader = dict(
    batch_size=32,
    num_workers=8,
    persistent_workers=True,
    pin_memory=True,
    sampler=dict(type='ttl_mm.EpochSampler'),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ttl_mm.ImageFolder',
        data_root='data/imagenet/train',
        with_label=True,
        pipeline=[
            load,
            dict(type='RandomResizedCrop', scale=224, **bilinear),
            dict(type='RandomFlip', prob=0.5),
            dict(type='PackInputs'),
        ],
    ),
)
val_dataloader = dict(
    batch_size=32,
    num_workers=8,
    persistent_workers=True,
    pin_memory=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ttl_mm.ImageFolder',
        data_root='data/imagenet/val',
        with_label=True,
        pipeline=[
            load,
            dict(type='ResizeEdge', scale=256, edge='short', **bilinear),
            dict(type='CenterCrop', crop_size=224),
            dict(type='PackInputs'),
        ],
    ),
)
val_evaluator = dict(type='Accuracy', topk=(1, 5))
val_cfg = dict()
test_dataloader = val_dataloader
test_evaluator = val_evaluator
test_cfg = dict()
