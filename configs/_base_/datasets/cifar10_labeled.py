# mmpretrain downloads CIFAR-10. To use a folder of images instead, take ttl_mm.ImageFolder with
# with_label=True.
_base_ = '../pixels/cifar10.py'

train_dataloader = dict(
    batch_size=256,
    num_workers=2,
    sampler=dict(type='ttl_mm.EpochSampler'),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='CIFAR10',
        data_root='data/cifar10',
        split='train',
        pipeline=[
            dict(type='RandomResizedCrop', scale=32, interpolation='bilinear', backend='pillow'),
            dict(type='RandomFlip', prob=0.5),
            dict(type='PackInputs'),
        ],
    ),
)
val_dataloader = dict(
    batch_size=256,
    num_workers=2,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='CIFAR10',
        data_root='data/cifar10',
        split='test',
        pipeline=[dict(type='PackInputs')],
    ),
)
val_evaluator = dict(type='Accuracy', topk=(1, 5))
val_cfg = dict()
test_dataloader = val_dataloader
test_evaluator = val_evaluator
test_cfg = dict()
