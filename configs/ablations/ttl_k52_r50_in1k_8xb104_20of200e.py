# Ablation of the rank, and of the margin at its default, C = -100. With 103 negatives it equals the
# main recipe's median.
_base_ = '../ttl_r50_8xb104_200e.py'

model = dict(head=dict(deputy=52))
train_cfg = dict(max_epochs=20)  # the first of 200: learning rate and momentum are not annealed
