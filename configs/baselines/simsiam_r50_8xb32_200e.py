_base_ = ['_base_/simsiam.py', '_base_/imagenet.py', '_base_/sgd_200e.py']

train_dataloader = dict(
    dataset=dict(
        pipeline=[
            dict(
                type='ttl_mm.RandomViews',
                views=[dict(num=2, area=(0.2, 1.0), saturation=0.4, blur=0.5)],
            ),
            dict(type='PackInputs'),
        ],
    ),
)
# the learning rate of the predictor does not fall
optim_wrapper = dict(
    optimizer=dict(lr=0.05), paramwise_cfg=dict(custom_keys=dict(predictor=dict(fix_lr=True)))
)
default_hooks = dict(predictor=dict(type='SimSiamHook', priority='HIGH', fix_pred_lr=True, lr=0.05))
