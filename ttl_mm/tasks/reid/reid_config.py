# The test protocol of SYSU-30k, as an mmengine config: 256 x 128, image and mirror image, cosine.
# `ttl eval --reid` and projects/sysu30k_reid are both built on it.
default_scope = 'mmpretrain'
custom_imports = dict(imports=['ttl_mm.tasks.reid.parts'])
runner_type = 'ttl_mm.Runner'

model = dict(
    type='ttl_mm.FlipFeatures',
    backbone=dict(type='ResNet', depth=50),
    reference_flip=False,
    data_preprocessor=dict(
        type='ClsDataPreprocessor',
        mean=(123.675, 116.28, 103.53),
        std=(58.395, 57.12, 57.375),
        to_rgb=True,
    ),
)
test_dataloader = dict(
    batch_size=100,
    num_workers=8,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ttl_mm.ReIDTestSet',
        data_root='data/sysu30k/sysu_test_set_all',
        query='query',
        gallery='gallery',
        pipeline=[
            dict(type='ttl_mm.LoadImage'),
            dict(type='Resize', scale=(128, 256), interpolation='bicubic', backend='pillow'),
            dict(type='PackInputs'),
        ],
    ),
)
test_evaluator = dict(type='ttl_mm.RetrievalMetric', out_dir='work_dirs/sysu30k_reid/features')
test_cfg = dict()
