_base_ = ['_base_/simsiam.py', '_base_/imagenet_sgd_200e.py']

# the learning rate of the predictor does not fall
optim_wrapper = dict(
    optimizer=dict(lr=0.05), paramwise_cfg=dict(custom_keys=dict(predictor=dict(fix_lr=True)))
)
default_hooks = dict(predictor=dict(type='SimSiamHook', priority='HIGH', fix_pred_lr=True, lr=0.05))
