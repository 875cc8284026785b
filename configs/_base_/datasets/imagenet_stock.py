# imagenet.py with mmpretrain's own transforms: the same views, for comparison.
_base_ = 'imagenet.py'

crop = dict(type='RandomResizedCrop', scale=224, interpolation='bicubic', backend='pillow')
flip = dict(type='RandomFlip', prob=0.5)
color = dict(
    type='RandomApply',
    prob=0.8,
    transforms=[dict(type='ColorJitter', brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1)],
)
gray = dict(
    type='RandomGrayscale', prob=0.2, keep_channels=True, channel_weights=(0.114, 0.587, 0.2989)
)
blur = dict(type='GaussianBlur', magnitude_range=(0.1, 2.0), magnitude_std='inf', prob=1.0)
view_1 = [crop, flip, color, gray, blur]
view_2 = [crop, flip, color, gray, dict(blur, prob=0.1), dict(type='Solarize', thr=128, prob=0.2)]

train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(type='LoadImageFromFile'),
            dict(type='MultiView', num_views=[1, 1], transforms=[view_1, view_2]),
            dict(type='PackInputs'),
        ],
    ),
)
