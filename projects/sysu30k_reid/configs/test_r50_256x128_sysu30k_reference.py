# SYSU-30k with the flip weighting of the release, where the mirror image counts for more.
_base_ = '../../../ttl_mm/tasks/reid/reid_config.py'

model = dict(reference_flip=True)
test_evaluator = dict(out_dir='work_dirs/sysu30k_reid/features_reference')
