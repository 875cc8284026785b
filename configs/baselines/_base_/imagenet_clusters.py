# The data of DeepCluster and ODC: augmented to train on, plain to cluster.
_base_ = ['../../_base_/datasets/imagenet.py', '../../_base_/default_runtime.py']

gray = dict(
    type='RandomGrayscale', prob=0.2, keep_channels=True, channel_weights=(0.114, 0.587, 0.2989)
)
train_dataloader = dict(
    batch_size=64,
    sampler=dict(type='mmselfsup.DeepClusterSampler'),
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.LoadImage'),
            dict(type='RandomResizedCrop', scale=224, backend='pillow'),
            dict(type='RandomFlip', prob=0.5),
            dict(type='mmselfsup.RandomRotation', degrees=2),
            dict(type='ColorJitter', brightness=0.4, contrast=0.4, saturation=1.0, hue=0.5),
            gray,
            dict(type='mmselfsup.PackSelfSupInputs', algorithm_keys=['sample_idx']),
        ],
    ),
)
default_hooks = dict(
    cluster=dict(
        type='ttl_mm.ClusterHook',
        num_clusters=10000,
        num_workers=8,
        dataset=dict(
            type='ttl_mm.ImageFolder',
            data_root='data/imagenet/train',
            pipeline=[
                dict(type='ttl_mm.LoadImage'),
                dict(type='ResizeEdge', scale=256, edge='short', backend='pillow'),
                dict(type='CenterCrop', crop_size=224),
                dict(type='PackInputs'),
            ],
        ),
    ),
)
env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
auto_scale_lr = dict(enable=False, base_batch_size=8 * 64)
