# A learning rate of zero: the probe measures the network as it is initialized, and again after an
# epoch in which only the statistics of BatchNorm change.
_base_ = 'simclr_r14_cifar10mini_1xb104_20e.py'

optim_wrapper = dict(optimizer=dict(lr=0.0, weight_decay=0.0))
train_cfg = dict(max_epochs=1)
