# The same with a frozen backbone: only the linear classifier is trained.
_base_ = 'finetune_r50_1xb64_20e.py'

default_hooks = dict(
    freeze=dict(type='ttl_mm.FreezeBackboneHook'),
    frozen=dict(type='ttl_mm.FrozenBackboneHook'),
    result=dict(protocol='classifier on a frozen backbone'),
)
