# One GPU with the negatives, the batch per step and so the schedule of the main recipe. What
# differs is BatchNorm, which sees 104 images instead of 832.
_base_ = '../ttl_r50_8xb104_200e.py'

optim_wrapper = dict(accumulative_counts=40)
auto_scale_lr = dict(base_batch_size=104)
