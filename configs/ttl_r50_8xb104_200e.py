# The paper's recipe: deputy of rank k = m/2, the median of 103 negatives.
_base_ = [
    '_base_/models/ttl_r50.py',
    '_base_/datasets/imagenet.py',
    '_base_/schedules/lars_200e.py',
]

# Updates the target network after every optimizer step; TTLAlgorithm refuses to train without it.
default_hooks = dict(target_update=dict(type='ttl_mm.TargetUpdateHook', horizon_epochs=200))
