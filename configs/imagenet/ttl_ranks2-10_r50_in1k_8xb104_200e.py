# The head that the authors released: the mean of ranks 2 to 10.
_base_ = '../ttl_r50_8xb104_200e.py'

model = dict(head=dict(deputy=(2, 10)))
