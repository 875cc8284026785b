# The main recipe on one GPU, with the same negatives, batch per step and schedule. Only BatchNorm
# differs: it sees 104 images instead of 832.
_base_ = '../ttl_r50_8xb104_200e.py'

optim_wrapper = dict(accumulative_counts=40)
auto_scale_lr = dict(base_batch_size=104)
