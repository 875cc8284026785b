# The demo: digits on photographs, at which raw pixels fail. A narrow ResNet-18, no target network
# and no predictor, small views, Muon; minutes on a CPU.
_base_ = ['../_base_/models/ttl_fast_r50.py', '../_base_/default_runtime.py']

model = dict(
    data_preprocessor=dict(to_rgb=False, mean=(60,) * 3, std=(55,) * 3),
    backbone=dict(type='ResNet_CIFAR', depth=18, stem_channels=16, base_channels=16),
    neck=dict(in_channels=128, hid_channels=512, out_channels=128),
)
# No flip, since a mirrored digit is no digit. Hue and gray, or colors would be enough to tell
# images apart.
view = dict(size=24, area=(0.4, 1.0), flip=0.0, saturation=0.4, hue=0.5, grayscale=0.3, blur=0.3)
train_dataloader = dict(
    batch_size=64,
    num_workers=1,
    persistent_workers=True,
    drop_last=True,
    sampler=dict(type='ttl_mm.EpochSampler'),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ttl_mm.DigitScenes',
        split='train',
        num=4000,
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[dict(view, num=2, sigma=(0.1, 1.0))]),
            dict(type='PackInputs'),
        ],
    ),
)
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='ttl_mm.Muon', lr=0.3, momentum=0.9, weight_decay=5e-4, matrix_rate=0.3),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, end=2, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=12, end=12, by_epoch=True, convert_to_iter_based=True),
]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=12)

plain = [dict(type='PackInputs')]
default_hooks = dict(
    logger=dict(interval=62),
    checkpoint=dict(max_keep_ckpts=1),
    probe=dict(
        type='ttl_mm.ProbeHook',
        train=dict(type='ttl_mm.DigitScenes', split='train', num=2000, pipeline=plain),
        test=dict(type='ttl_mm.DigitScenes', split='test', num=1000, pipeline=plain),
        interval=2,
        linear=True,
        linear_interval=12,
    ),
)
env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
auto_scale_lr = dict(enable=False, base_batch_size=64)
