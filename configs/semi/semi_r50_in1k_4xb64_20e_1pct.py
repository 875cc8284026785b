# Fine-tuning of the whole network on 1 % of the labels as OpenSelfSup does it: SyncBN, 20 epochs,
# the learning rate falls to a fifth after 12 and after 16. It tries 0.1, 0.01 and 0.001, each with
# the classifier at 1, 10 and 100 times as much, and takes the best of nine; this is one of them. It
# keeps the last, shorter batch of an epoch, which is dropped here: other data may leave one image.
_base_ = [
    '../_base_/models/classifier_r50.py',
    '../_base_/datasets/imagenet_labeled.py',
    '../_base_/default_runtime.py',
]
model = dict(backbone=dict(norm_cfg=dict(type='SyncBN')))
train_dataloader = dict(
    batch_size=64,
    drop_last=True,
    dataset=dict(
        _delete_=True,
        type='ttl_mm.Fraction',
        fraction=0.01,
        dataset={{_base_.train_dataloader.dataset}},
    ),
)
optim_wrapper = dict(
    optimizer=dict(type='SGD', lr=0.01, momentum=0.9, weight_decay=5e-4),
    paramwise_cfg=dict(custom_keys=dict(head=dict(lr_mult=100))),
)
param_scheduler = [dict(type='MultiStepLR', milestones=[12, 16], gamma=0.2, by_epoch=True)]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=20, val_interval=1)
default_hooks = dict(
    result=dict(type='ttl_mm.ResultHook', protocol='fine-tuning on 1 % of the labels'),
    checkpoint=dict(save_best='accuracy/top1'),
    gauges=None,  # for pre-training only
    collapse=None,
)
env_cfg = dict(cudnn_benchmark=True)  # all inputs have one size
auto_scale_lr = dict(enable=False, base_batch_size=256)
