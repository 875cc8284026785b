# SYSU-30k from scratch: 4 x 196 images, eight times per optimizer step: 6272.
# Views, network, head and learning rate are those of ImageNet, as released.
_base_ = '../../../configs/imagenet/ttl_ranks2-10_r50_in1k_8xb104_200e.py'

custom_imports = dict(imports=['ttl_mm.tasks.reid.parts'])
train_dataloader = dict(
    batch_size=196,
    dataset=dict(
        type='ttl_mm.ReIDTrainSet',
        data_root='data/sysu30k/sysu_train_set_all',
        list_file='data/sysu30k/meta/train.txt',
        test_root='data/sysu30k',  # an identity in both splits is an error before the first step
    ),
)
optim_wrapper = dict(accumulative_counts=8)
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-4, end=2, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=10, end=10, by_epoch=True),
]
train_cfg = dict(max_epochs=10)
default_hooks = dict(
    checkpoint=dict(interval=1),
    target_update=dict(horizon_epochs=10),
)
auto_scale_lr = dict(base_batch_size=4 * 196)
