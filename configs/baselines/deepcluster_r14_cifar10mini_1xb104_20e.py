_base_ = ['_base_/deepcluster.py', '_base_/cifar10_mini_clusters.py']

model = dict(
    data_preprocessor=_base_.cifar10_pixels,
    backbone={{_base_.small_resnet}},
    head=dict(in_channels=64, num_classes=100),
)
default_hooks = dict(cluster=dict(pca_dim=32, uniform=True))
