# The paper's k = m/2.
_base_ = 'ttl_ranks2-10.py'

model = dict(head=dict(deputy='median'))
