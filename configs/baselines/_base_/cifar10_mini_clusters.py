# cifar10_mini.py with what DeepCluster and ODC need: 100 clusters, ten times the classes.
_base_ = 'cifar10_mini.py'

train_dataloader = dict(
    sampler=dict(type='mmselfsup.DeepClusterSampler'),
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[{{_base_.view}}]),
            dict(type='ttl_mm.PackSelfSupViews', algorithm_keys=['sample_idx']),
        ],
    ),
)
optim_wrapper = dict(
    constructor='ttl_mm.OptimWrapperConstructor',
    paramwise_cfg=dict(custom_keys=dict(head=dict(momentum=0.0))),
)
default_hooks = dict(
    cluster=dict(
        type='ttl_mm.ClusterHook',
        num_clusters=100,
        dataset=dict(
            type='ttl_mm.ImageFolder',
            data_root='data/cifar10_mini/train',
            pipeline={{_base_.plain}},
        ),
    ),
)
