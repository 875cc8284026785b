# The paper's recipe: deputy of rank k = m/2, the median of 103 negatives.
_base_ = [
    '_base_/models/ttl_r50.py',
    '_base_/datasets/imagenet.py',
    '_base_/schedules/lars_200e.py',
]
