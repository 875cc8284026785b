# The paper's linear evaluation, with the released learning rate for pre-training of up to 200
# epochs.
_base_ = [
    '../_base_/models/classifier_r50.py',
    '../_base_/datasets/imagenet_labeled.py',
    '../_base_/schedules/linear_100e.py',
]
model = dict(backbone=dict(frozen_stages=4))
