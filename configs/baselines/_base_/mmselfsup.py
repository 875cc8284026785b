# What the five systems of mmselfsup have in common. Hyper-parameters are those of its 1.0.0.
custom_imports = dict(imports=['ttl_mm.tasks.mmselfsup.parts'])

model = dict(
    data_preprocessor=dict(
        type='mmselfsup.SelfSupDataPreprocessor',
        mean=(123.675, 116.28, 103.53),
        std=(58.395, 57.12, 57.375),
        bgr_to_rgb=True,
    ),
    backbone=dict(type='ResNet', depth=50, zero_init_residual=False),
)
