# The paper's ablations: one epoch of linear training. The schedule is still that of 100 epochs, so
# this epoch is the first tenth of the warm-up: the learning rate rises from 1.5e-5 to 0.015.
_base_ = 'linear_r50_in1k_8xb32_100e.py'

train_cfg = dict(max_epochs=1)
default_hooks = dict(result=dict(protocol='linear, the first tenth of the warm-up'))
