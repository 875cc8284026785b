# Our main recipe with BYOL's network and loss from mmpretrain in the place of ours: the same data,
# batch, optimizer and schedule. mmpretrain's target moves at the start of a forward pass.
_base_ = [
    '_base_/byol.py',
    '../_base_/datasets/imagenet.py',
    '../_base_/schedules/lars_200e.py',
]

data_preprocessor = dict(
    type='SelfSupDataPreprocessor',
    mean=(123.675, 116.28, 103.53),
    std=(58.395, 57.12, 57.375),
    to_rgb=True,
)
