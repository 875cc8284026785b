# The paper's recipe: deputy of rank k = m/2, the median of 103 negatives.
_base_ = [
    '_base_/models/ttl_r50.py',
    '_base_/datasets/imagenet.py',
    '_base_/schedules/lars_200e.py',
]

# TTLAlgorithm does not train without it: the target moves after every step of the optimizer.
default_hooks = dict(target_update=dict(type='ttl_mm.TargetUpdateHook', horizon_epochs=200))
