# The paper's k = m/2.
_base_ = 'ttl_smooth.py'

model = dict(head=dict(ranks=None))
