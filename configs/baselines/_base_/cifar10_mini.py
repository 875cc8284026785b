# One setting for all methods, small enough for two CPU cores: any part of CIFAR-10 as a folder
# {train,test}/CLASS/*, a small ResNet, the same views, batch, epochs and probe.
_base_ = ['../../_base_/default_runtime.py', '../../_base_/pixels/cifar10.py']

small_resnet = dict(  # three stages of two blocks, at 16, 8 and 4 pixels
    type='ResNet_CIFAR',
    depth=18,
    stem_channels=16,
    base_channels=16,
    num_stages=3,
    strides=(2, 2, 2),
    dilations=(1, 1, 1),
    out_indices=(2,),
    norm_cfg=dict(type='BN'),
    zero_init_residual=False,
    init_cfg=[dict(type='Kaiming', layer=['Conv2d'])],
)
view = dict(size=32, area=(0.2, 1.0), blur=0.0)
train_dataloader = dict(
    batch_size=104,
    num_workers=0,
    drop_last=True,
    sampler=dict(type='ttl_mm.EpochSampler'),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ttl_mm.ImageFolder',
        data_root='data/cifar10_mini/train',
        with_label=True,  # for the gauges; no method but the supervised one learns from them
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[dict(view, num=2)]),
            dict(type='PackInputs'),
        ],
    ),
)
plain = [dict(type='ttl_mm.LoadImage'), dict(type='PackInputs')]
default_hooks = dict(
    logger=dict(interval=24),
    checkpoint=dict(max_keep_ckpts=1),
    probe=dict(
        type='ttl_mm.ProbeHook',
        train=dict(
            type='ttl_mm.ImageFolder',
            data_root='data/cifar10_mini/train',
            with_label=True,
            pipeline=plain,
        ),
        test=dict(
            type='ttl_mm.ImageFolder',
            data_root='data/cifar10_mini/test',
            with_label=True,
            pipeline=plain,
        ),
        interval=2,
        linear=True,
        linear_interval=4,
    ),
)
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.06, momentum=0.9, weight_decay=5e-4))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, end=1, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=20, end=20, by_epoch=True, convert_to_iter_based=True),
]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=20)
env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
auto_scale_lr = dict(enable=False, base_batch_size=104)
