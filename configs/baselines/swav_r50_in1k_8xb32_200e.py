# Two crops of 224 px; the queue of features fills from epoch 15 on.
_base_ = ['_base_/swav.py', '_base_/imagenet.py']

strong = dict(area=(0.14, 1.0), brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2, blur=0.5)
train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(type='ttl_mm.RandomViews', views=[dict(strong, num=2)]),
            dict(type='PackInputs'),
        ],
    ),
)
optim_wrapper = dict(optimizer=dict(type='ttl_mm.LARS', lr=0.6, momentum=0.9, weight_decay=1e-6))
param_scheduler = [
    dict(
        type='CosineAnnealingLR',
        T_max=200,
        end=200,
        eta_min=6e-4,
        by_epoch=True,
        convert_to_iter_based=True,
    )
]
default_hooks = dict(
    swav=dict(
        type='SwAVHook',
        priority='VERY_HIGH',
        batch_size=32,
        epoch_queue_starts=15,
        queue_length=3840,
        frozen_layers_cfg=dict(prototypes=5005),
    ),
)
find_unused_parameters = True  # the prototypes, while they are frozen
