_base_ = 'ttl_ranks2-10.py'

model = dict(head=dict(ranks=(5, 5)))
