_base_ = 'ttl_ranks2-10.py'

model = dict(head=dict(deputy=5))
