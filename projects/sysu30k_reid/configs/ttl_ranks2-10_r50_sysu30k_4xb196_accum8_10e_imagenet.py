# The same from a backbone that was pre-trained on ImageNet without labels, as released; neck and
# predictor start at random. Name it: --cfg-options model.backbone.init_cfg.checkpoint=FILE
_base_ = 'ttl_ranks2-10_r50_sysu30k_4xb196_accum8_10e.py'

model = dict(
    backbone=dict(init_cfg=dict(_delete_=True, type='ttl_mm.PretrainedBackbone', checkpoint=None))
)
