_base_ = '../default_runtime.py'

# 8 x 104 images, five times per optimizer step: 4160, at the learning rate of the paper.
optim_wrapper = dict(
    type='ttl_mm.AmpOptimWrapper',  # bfloat16 where the GPU has it, else float16
    constructor='ttl_mm.OptimWrapperConstructor',
    loss_scale='dynamic',
    accumulative_counts=5,
    optimizer=dict(type='ttl_mm.LARS', lr=4.8, momentum=0.9, weight_decay=1e-6),
    paramwise_cfg=dict(
        # Excludes 110 of 171 tensors. The scales of `downsample.1` stay adapted, as released;
        # OpenMMLab's BYOL lists that key too.
        custom_keys=dict(
            bn=dict(decay_mult=0, lars_exclude=True),
            bias=dict(decay_mult=0, lars_exclude=True),
        )
    ),
)
# mmengine multiplies the two: the cosine starts at epoch 0, under the warm-up.
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-4, end=10, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=200, end=200, by_epoch=True),
]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=200)

# Images per iteration of all processes; accumulation comes on top.
auto_scale_lr = dict(enable=False, base_batch_size=8 * 104)
