# The released learning rate for long pre-training (700 epochs and more).
_base_ = 'linear_r50_in1k_8xb32_100e.py'

optim_wrapper = dict(optimizer=dict(lr=0.04))
