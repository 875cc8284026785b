# Our main recipe with BYOL's network and loss from mmpretrain in the place of ours: the same data,
# batch, optimizer and schedule. mmpretrain's target moves at the start of a forward pass.
_base_ = [
    '_base_/byol.py',
    '../_base_/datasets/imagenet.py',
    '../_base_/schedules/lars_200e.py',
]

env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
