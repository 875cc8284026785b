# No predictor: projections are compared with projections. Then positive and deputy need equal
# weight (gamma = 1), and the target may follow the online network immediately.
_base_ = 'ttl_ranks2-10.py'

model = dict(target_momentum=0.0, head=dict(predictor=None, gamma=1.0))
