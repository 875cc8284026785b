# Ablation of the rank.
_base_ = '../ttl_r50_8xb104_200e.py'

model = dict(head=dict(deputy=5))
train_cfg = dict(max_epochs=20)  # the first of 200: learning rate and momentum are not annealed
