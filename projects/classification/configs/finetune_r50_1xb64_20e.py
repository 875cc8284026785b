# A classifier on your own class folders: what `ttl finetune` adapts to the data and the network.
# The rates are those of the semi-supervised recipe, with 64 images at once on one device; but the
# classifier begins as a logistic regression on standardized features, so it needs no larger rate.
_base_ = '../../../configs/semi/semi_r50_in1k_4xb64_20e_10pct.py'

custom_imports = dict(imports=['ttl_mm.tasks.classification.parts'], allow_failed_imports=False)

model = dict(
    backbone=dict(norm_cfg=dict(type='BN')),
    neck=[dict(type='GlobalAveragePooling'), dict(type='ttl_mm.Standardize', num_features=2048)],
    head=dict(topk=(1,)),
)
train_dataloader = dict(
    dataset=dict(_delete_=True, **_base_.train_dataloader.dataset.dataset), num_workers=2
)
val_dataloader = dict(batch_size=64, num_workers=2)
val_evaluator = [
    dict(type='Accuracy', topk=(1,)),
    dict(type='ttl_mm.ValidationScore'),
]
test_dataloader = val_dataloader
test_evaluator = val_evaluator
optim_wrapper = dict(paramwise_cfg=dict(_delete_=True))
default_hooks = dict(
    linear_start=dict(
        type='ttl_mm.LinearStartHook',
        dataset=dict(_base_.val_dataloader.dataset, **_base_.train_dataloader.dataset.dataset),
    ),
    logger=dict(interval=10),
    validation_stop=dict(type='ttl_mm.ValidationStopHook', metric='validation/score', patience=8),
    checkpoint=dict(max_keep_ckpts=1, save_best='validation/score'),
    result=dict(protocol='fine-tuning', metric='validation/score'),
)
auto_scale_lr = dict(enable=False, base_batch_size=64)
