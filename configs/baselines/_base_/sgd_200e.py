optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.03, momentum=0.9, weight_decay=1e-4))
param_scheduler = [dict(type='CosineAnnealingLR', T_max=200, end=200, by_epoch=True)]
