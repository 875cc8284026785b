_base_ = 'swav_r14_cifar10mini_1xb104_20e.py'

model = dict(head=dict(loss=dict(num_crops=[2, 4])))
views = [
    dict(size=32, num=2, area=(0.2, 1.0), blur=0.0),
    dict(size=20, num=4, area=(0.05, 0.2), blur=0.0),
]
train_dataloader = dict(
    dataset=dict(
        pipeline=[dict(type='ttl_mm.RandomViews', views=views), dict(type='PackInputs')],
    ),
)
