# 8 x 8 pixels, so crops and rotations are mild. No flip: a mirrored digit is no digit.
_base_ = '../pixels/digits.py'

view = [
    dict(type='Rotate', magnitude_range=(0, 15), magnitude_std='inf', pad_val=0, prob=0.8),
    dict(
        type='RandomResizedCrop',
        scale=16,
        crop_ratio_range=(0.5, 1.0),
        interpolation='bicubic',
        backend='pillow',
    ),
    dict(type='ColorJitter', brightness=0.4, contrast=0.4),
    dict(type='GaussianBlur', magnitude_range=(0.1, 1.0), magnitude_std='inf', prob=0.5),
]

train_dataloader = dict(
    batch_size=32,
    num_workers=1,
    persistent_workers=True,
    drop_last=True,
    sampler=dict(type='ttl_mm.EpochSampler'),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ttl_mm.Digits',
        split='train',
        pipeline=[
            dict(type='MultiView', num_views=[2], transforms=[view]),
            dict(type='PackInputs'),
        ],
    ),
)
