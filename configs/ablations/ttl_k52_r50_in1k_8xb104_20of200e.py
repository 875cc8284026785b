# Ablation of the rank, and of the margin at its default, C = -100.
# Equals the main recipe's median as long as there are 103 negatives.
_base_ = '../ttl_r50_8xb104_200e.py'

model = dict(head=dict(deputy=52))
train_cfg = dict(max_epochs=20)  # the first of 200: learning rate and momentum are not annealed
