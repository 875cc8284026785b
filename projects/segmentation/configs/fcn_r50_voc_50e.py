# FCN on VOC masks, as MoCo's authors measure self-supervised weights: the fourth stage keeps stride
# 16 by dilation, two 3 x 3 convolutions of dilation 6, 16 images of 513 pixels, 0.003, 50 epochs, a
# tenth of it after 70 % and 90 %. `ttl segment train` fits it to your masks.
_base_ = [
    '../../../configs/_base_/default_runtime.py',
    '../../../configs/_base_/pixels/imagenet.py',
]

custom_imports = dict(imports=['ttl_mm.tasks.segmentation.parts'], allow_failed_imports=False)
data_root = '{{$VOC_ROOT:data/VOCdevkit/}}VOC2012'

model = dict(
    type='ttl_mm.FCN',
    data_preprocessor=dict(
        type='mmengine.ImgDataPreprocessor',
        mean=[*_base_.imagenet_pixels.mean],
        std=[*_base_.imagenet_pixels.std],
        bgr_to_rgb=True,
    ),
    backbone=dict(
        type='mmpretrain.ResNet',
        depth=50,
        strides=(1, 2, 2, 1),
        dilations=(1, 1, 1, 2),
        out_indices=(3,),
        norm_cfg=dict(type='SyncBN'),
        init_cfg=dict(type='ttl_mm.PretrainedBackbone', checkpoint=None),
    ),
    in_channels=2048,
    channels=256,
    num_classes=21,
    norm_cfg=dict(type='SyncBN'),
)
train_dataloader = dict(
    batch_size=2,
    num_workers=2,
    persistent_workers=True,
    drop_last=True,
    sampler=dict(type='ttl_mm.EpochSampler'),
    collate_fn=dict(type='pseudo_collate'),
    dataset=dict(
        type='ttl_mm.MaskedImages',
        data=data_root,
        split='train',
        pipeline=[
            dict(type='ttl_mm.LoadMasked'),
            dict(type='ttl_mm.RandomPatch', size=513, scales=(0.5, 2.0)),
            dict(type='ttl_mm.PackMasked'),
        ],
    ),
)
val_dataloader = dict(
    batch_size=1,
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='pseudo_collate'),
    dataset=dict(
        type='ttl_mm.MaskedImages',
        data=data_root,
        split='val',
        pipeline=[dict(type='ttl_mm.LoadMasked'), dict(type='ttl_mm.PackMasked')],
    ),
)
val_evaluator = dict(type='ttl_mm.MeanIoU')
val_cfg = dict()
test_dataloader = val_dataloader
test_evaluator = val_evaluator
test_cfg = dict()
optim_wrapper = dict(optimizer=dict(type='SGD', lr=0.003, momentum=0.9, weight_decay=1e-4))
param_scheduler = [dict(type='MultiStepLR', milestones=[35, 45], gamma=0.1, by_epoch=True)]
train_cfg = dict(type='ttl_mm.EpochLoop', max_epochs=50, val_interval=5)
default_hooks = dict(
    checkpoint=dict(interval=5, max_keep_ckpts=1),
    gauges=None,  # for pre-training only
    collapse=None,
)
auto_scale_lr = dict(enable=False, base_batch_size=16)
