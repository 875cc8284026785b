# The same on one GPU, at a quarter of the images per step.
_base_ = 'ttl_fast_r50_in1k_8xb128_accum1_100e.py'

train_dataloader = dict(batch_size=256)
model = dict(head=dict(gather_negatives=False))
optim_wrapper = dict(optimizer=dict(lr=0.3))
auto_scale_lr = dict(base_batch_size=256)
