# No predictor: projections are compared with projections. Pull and push need equal weights then,
# and the target, which nothing but the gradient keeps apart, may follow at once.
_base_ = 'ttl_ranks2-10.py'

model = dict(target_momentum=0.0, head=dict(predictor=None, gamma=1.0))
