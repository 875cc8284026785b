_base_ = ['_base_/deepcluster.py', '_base_/cifar10_mini_clusters.py']

model = dict(
    data_preprocessor=dict(
        mean={{_base_.data_preprocessor.mean}}, std={{_base_.data_preprocessor.std}}
    ),
    backbone={{_base_.small_resnet}},
    head=dict(in_channels=64, num_classes=100),
)
default_hooks = dict(cluster=dict(pca_dim=32, uniform=True))
