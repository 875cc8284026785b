_base_ = ['_base_/deepcluster.py', '_base_/imagenet_clusters.py']

optim_wrapper = dict(
    constructor='ttl_mm.OptimWrapperConstructor',
    optimizer=dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=1e-5),
    paramwise_cfg=dict(custom_keys=dict(head=dict(momentum=0.0))),  # the head is reset every epoch
)
param_scheduler = []  # mmselfsup's only step is at epoch 400
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=200)
default_hooks = dict(cluster=dict(pca_dim=256, uniform=True))
