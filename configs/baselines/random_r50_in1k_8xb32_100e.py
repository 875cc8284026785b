# The paper's first row: the linear evaluation of a network that nothing has trained.
_base_ = '../linear/linear_r50_in1k_8xb32_100e.py'

model = dict(backbone=dict(init_cfg=[dict(type='Kaiming', layer=['Conv2d'])]))
