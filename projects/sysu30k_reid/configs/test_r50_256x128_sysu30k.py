# SYSU-30k with image and mirror image in equal parts.
_base_ = '../../../ttl_mm/tasks/reid/reid_config.py'
