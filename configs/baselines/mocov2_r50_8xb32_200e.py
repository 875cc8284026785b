_base_ = ['_base_/moco.py', '_base_/imagenet.py', '_base_/sgd_200e.py']

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
