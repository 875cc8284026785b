# Market-1501 by the same protocol.
_base_ = '../../../ttl_mm/tasks/reid/reid_config.py'

test_dataloader = dict(dataset=dict(data_root='data/market1501', gallery='bounding_box_test'))
test_evaluator = dict(out_dir='work_dirs/market1501_reid/features')
