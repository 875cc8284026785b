# scikit-learn's 8 x 8 digits at the size of the demo's views, without augmentation.
_base_ = '../pixels/digits.py'

pipeline = [
    dict(type='Resize', scale=16, interpolation='bicubic', backend='pillow'),
    dict(type='PackInputs'),
]
train_dataloader = dict(
    batch_size=256,
    num_workers=0,
    sampler=dict(type='ttl_mm.EpochSampler'),
    collate_fn=dict(type='default_collate'),
    dataset=dict(type='ttl_mm.Digits', split='train', pipeline=pipeline),
)
val_dataloader = dict(
    batch_size=256,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='default_collate'),
    dataset=dict(type='ttl_mm.Digits', split='test', pipeline=pipeline),
)
val_evaluator = dict(type='Accuracy', topk=(1, 5))
val_cfg = dict()
test_dataloader = val_dataloader
test_evaluator = val_evaluator
test_cfg = dict()
