# Two crops of 224 px and six of 96.
_base_ = 'swav_r50_in1k_8xb32_200e.py'

model = dict(head=dict(loss=dict(num_crops=[2, 6])))
colors = dict(brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2, blur=0.5)
views = [
    dict(colors, num=2, area=(0.14, 1.0)),
    dict(colors, num=6, area=(0.05, 0.14), size=96),
]
train_dataloader = dict(
    dataset=dict(
        pipeline=[dict(type='ttl_mm.RandomViews', views=views), dict(type='PackInputs')],
    ),
)
