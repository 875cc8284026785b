# ImageNet on 8 GPUs: views of 160 px for three quarters of the epochs, then 224 px.
_base_ = [
    '../_base_/models/ttl_fast_r50.py',
    '../_base_/datasets/imagenet.py',
    '../_base_/schedules/lars_200e.py',
]

view = dict(size=160, later_sizes=[(75, 224)])
train_dataloader = dict(
    batch_size=128,
    dataset=dict(
        pipeline=[
            dict(
                type='ttl_mm.RandomViews',
                views=[view, dict(view, blur=0.1, solarize=0.2)],
            ),
            dict(type='PackInputs'),
        ],
    ),
)
model = dict(head=dict(gather_negatives=True))
# the paper's rate, in proportion to the images per step: 4.8 for 4160
optim_wrapper = dict(accumulative_counts=1, optimizer=dict(lr=1.2))
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-4, end=5, by_epoch=True, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', T_max=100, end=100, by_epoch=True, convert_to_iter_based=True),
]
train_cfg = dict(max_epochs=100)
env_cfg = dict(cudnn_benchmark=True)  # two sizes in the whole run
auto_scale_lr = dict(base_batch_size=8 * 128)
