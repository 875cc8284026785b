# 10 % of the labels: the classifier at ten times the backbone's learning rate, and a fifth of the
# weight decay, as OpenSelfSup has it.
_base_ = 'semi_r50_in1k_4xb64_20e_1pct.py'

train_dataloader = dict(dataset=dict(fraction=0.1))
optim_wrapper = dict(
    optimizer=dict(weight_decay=1e-4),
    paramwise_cfg=dict(custom_keys=dict(head=dict(lr_mult=10))),
)
default_hooks = dict(result=dict(protocol='fine-tuning on 10 % of the labels'))
