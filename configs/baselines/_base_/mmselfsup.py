# What the five systems of mmselfsup have in common. Hyper-parameters are those of its 1.0.0.
_base_ = '../../_base_/pixels/imagenet.py'

custom_imports = dict(imports=['ttl_mm.tasks.mmselfsup.parts'])

model = dict(
    data_preprocessor=dict(
        type='mmselfsup.SelfSupDataPreprocessor',
        non_blocking=True,
        bgr_to_rgb=True,
        **_base_.imagenet_pixels,
    ),
    backbone=dict(type='ResNet', depth=50, zero_init_residual=False),
)
