_base_ = 'ttl_smooth.py'

model = dict(head=dict(ranks=(5, 5)))
