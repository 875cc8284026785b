# The released recipe for GPUs of 24 GB: 195 negatives, 6272 images per step.
_base_ = 'ttl_ranks2-10_r50_in1k_8xb104_accum6_1000e.py'

train_dataloader = dict(batch_size=196)
optim_wrapper = dict(accumulative_counts=4)
auto_scale_lr = dict(base_batch_size=8 * 196)
