# The published figure was trained for 440 epochs, although the paper's table says 200.
_base_ = ['_base_/odc.py', '_base_/imagenet_clusters.py']

train_dataloader = dict(sampler=dict(replace=True))
optim_wrapper = dict(
    constructor='ttl_mm.OptimWrapperConstructor',
    optimizer=dict(type='SGD', lr=0.06, momentum=0.9, weight_decay=1e-5),
    paramwise_cfg=dict(custom_keys=dict(head=dict(momentum=0.0))),
)
param_scheduler = [dict(type='MultiStepLR', milestones=[400], gamma=0.4, by_epoch=True)]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=440)
default_hooks = dict(
    cluster=dict(interval=None, reweight=True),
    odc=dict(type='ttl_mm.ODCHook'),
)
