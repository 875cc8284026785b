default_scope = 'mmpretrain'
runner_type = 'ttl_mm.Runner'

# All hooks are in this dict and none in `custom_hooks`: a recipe's dict is merged with it, a list
# would replace it. They run in this order; a recipe's own hooks run by their priority, and None
# removes a hook (docs/architecture.md, "The order of hooks").
default_hooks = dict(
    runtime_info=dict(type='RuntimeInfoHook'),
    preflight=dict(type='ttl_mm.PreflightHook'),
    finite=dict(type='ttl_mm.FiniteHook'),
    timer=dict(type='IterTimerHook'),
    sampler_seed=dict(type='DistSamplerSeedHook'),
    progress=dict(type='ttl_mm.ProgressHook'),
    collapse=dict(type='ttl_mm.CollapseHook'),
    symptoms=dict(type='ttl_mm.SymptomsHook'),
    bad_images=dict(type='ttl_mm.BadImagesHook'),
    logger=dict(type='LoggerHook', interval=50),
    param_scheduler=dict(type='ParamSchedulerHook'),
    gauges=dict(type='ttl_mm.GaugeHook'),
    stall=dict(type='ttl_mm.StallHook'),
    checkpoint=dict(type='ttl_mm.CheckpointHook', interval=1, max_keep_ckpts=3),
    preemption=dict(type='ttl_mm.PreemptionHook'),
)

env_cfg = dict(
    cudnn_benchmark=False,  # the random rescale changes the input size in every iteration
    mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0),
    dist_cfg=dict(backend='nccl', timeout=1800),  # seconds until a silent rank ends the run
)
vis_backends = [dict(type='LocalVisBackend'), dict(type='TensorboardVisBackend')]
visualizer = dict(type='UniversalVisualizer', vis_backends=vis_backends)
log_level = 'INFO'
load_from = None
resume = False
randomness = dict(seed=0)
