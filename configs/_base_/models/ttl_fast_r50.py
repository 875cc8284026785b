# One network instead of two: keys are the online projections and get a gradient as well. A soft
# deputy over the 20 nearest negatives of both views.
_base_ = 'ttl_r50.py'

model = dict(
    target_momentum=None,
    online_sizes=None,
    target_sizes=None,
    # BatchNorm at the end: without it all projections start out nearly parallel
    neck=dict(with_last_bn=True),
    head=dict(
        predictor=None,
        gamma=1.0,  # pull and push must balance without a predictor
        deputy=(1, 20),
        deputy_temperature=0.1,
        both_views=True,
    ),
)
