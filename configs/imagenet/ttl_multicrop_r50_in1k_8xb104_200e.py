# Two views of 224 px are the targets; six small crops predict them too. The paper gives a result
# without details: areas and sizes are SwAV's, colors alternate between those of the two views.
_base_ = '../ttl_r50_8xb104_200e.py'

second = dict(blur=0.1, solarize=0.2)
large = dict(size=224, area=(0.14, 1.0))
small = dict(size=96, area=(0.05, 0.14), num=3)
views = [large, dict(large, **second), small, dict(small, **second)]
train_dataloader = dict(
    dataset=dict(
        pipeline=[dict(type='ttl_mm.RandomViews', views=views), dict(type='PackInputs')],
    ),
)
