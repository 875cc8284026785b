"""The config of ``ttl detect train``: a recipe of projects/detection, fitted to the data."""

import copy
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ttl_mm.config import read_config
from ttl_mm.files.recipes import recipes_root
from ttl_mm.finetuning.resnet import Backbone
from ttl_mm.finetuning.schedule import Schedule, set_workers

RECIPES = {
    'mask-rcnn-fpn': 'mask-rcnn_r50-fpn_1x_coco.py',
    'faster-rcnn-fpn': 'faster-rcnn_r50-fpn_1x_coco.py',
    'faster-rcnn-c4': 'faster-rcnn_r50-c4_24k_voc0712_moco.py',
    'retinanet': 'retinanet_r50-fpn_1x_coco.py',
}
SIZE = 800  # short side of the images in the recipes
SHORT_SIDES = (0.8, 0.84, 0.88, 0.92, 0.96, 1.0)  # in training, as 640 to 800 in the recipes
COCO_IMAGES, COCO_EPOCHS = 117_266, 12  # a schedule of 1x
MOST_EPOCHS = 150
STEPS = 2_000  # at least, however few the images are: the heads are new
VALIDATIONS = 10  # of a run
RATE_IMAGES = 16  # that the learning rates of the recipes are for


@cache
def _read(model: str) -> Config:
    """A recipe; mmengine reads 100 YAML files of mmdet to find the bases of one."""
    return read_config(recipes_root() / 'projects/detection/configs' / RECIPES[model])


def epochs_for(schedule: Schedule, images: int) -> int:
    """Those of 1x on COCO; on fewer images more, so that visits fall as their square root.

    >>> [epochs_for(Schedule(), images) for images in (117_266, 10_000, 100, 8)]
    [12, 41, 150, 1000]
    """
    images = max(1, images)
    fitted = max(COCO_EPOCHS, round(COCO_EPOCHS * math.sqrt(COCO_IMAGES / images)))
    least = math.ceil(STEPS * schedule.batch_size / images)
    return schedule.epochs or max(min(MOST_EPOCHS, fitted), least)


def steps_for(schedule: Schedule, images: int) -> int:
    """Steps of a run."""
    return max(1, math.ceil(epochs_for(schedule, images) * images / schedule.batch_size))


def detector_config(
    model: str, backbone: Backbone, classes: Sequence[str], size: int = SIZE, random: bool = True
) -> Config:
    """A recipe with the network for this backbone and these classes.

    Args:
        model: One of :data:`RECIPES`.
        backbone: Of the detector.
        classes: Their names.
        size: Short side of the images, which anchors and numbers of proposals are fitted to.
        random: Whether the backbone keeps its random weights.
    """
    cfg = copy.deepcopy(_read(model))
    net, share = cfg.model, size / SIZE
    net.data_preprocessor.update(mean=list(backbone.mean), std=list(backbone.std))
    init = backbone.start(random)
    net.backbone = {
        **backbone.config, 'norm_cfg': net.backbone.norm_cfg, 'norm_eval': False,
        'frozen_stages': -1, 'style': 'pytorch', 'zero_init_residual': False,
        'init_cfg': init,
    }  # fmt: skip
    if model == 'faster-rcnn-c4':
        _fit_c4(net, backbone, share, init)
    else:
        _fit_fpn(net, backbone, share)
    if 'roi_head' in net:
        net.roi_head.bbox_head.num_classes = len(classes)
        if 'mask_head' in net.roi_head:
            net.roi_head.mask_head.num_classes = len(classes)
        _fewer_regions(net, share)
    else:
        net.bbox_head.num_classes = len(classes)
    return cfg


def _fit_fpn(net: Any, backbone: Backbone, share: float) -> None:
    """Levels of stride 4 (8 for RetinaNet) to 64 (128), from stages that have them."""
    width, two_stage = backbone.width, 'roi_head' in net
    net.backbone.out_indices = (0, 1, 2, 3)
    finest = 4 if two_stage else 8
    start = next(i for i, stride in enumerate(backbone.strides) if stride >= finest)
    net.neck.update(in_channels=backbone.channels, out_channels=width, start_level=start)
    head = net.rpn_head if two_stage else net.bbox_head
    head.update(in_channels=width, feat_channels=width)
    if not two_stage:
        _fit_octaves(head.anchor_generator, share)
        return
    head.anchor_generator.scales = doubled(max(2.0, 8 * share), 8)
    net.roi_head.bbox_roi_extractor.out_channels = width
    box = net.roi_head.bbox_head
    box.update(in_channels=width, conv_out_channels=width, fc_out_channels=4 * width)
    if 'mask_head' in net.roi_head:
        net.roi_head.mask_roi_extractor.out_channels = width
        net.roi_head.mask_head.update(in_channels=width, conv_out_channels=width)


def _fit_octaves(generator: Any, share: float) -> None:
    """As :func:`doubled`, with the steps between two octaves that RetinaNet has."""
    steps, whole = generator.pop('scales_per_octave'), generator.pop('octave_base_scale')
    first = doubled(max(1.0, whole * share), whole)
    generator.scales = [scale * 2 ** (i / steps) for scale in first for i in range(steps)]


def doubled(first: float, whole: float) -> list[float]:
    """Scales of anchors for images that are smaller than those of the recipe.

    An object overlaps well with an anchor only if anchors lie close together for their size. Small
    objects need smaller anchors, which lie as far apart as before; so the larger ones stay.

    Args:
        first: The smallest, in strides.
        whole: That of the recipe.

    >>> doubled(2, whole=8), doubled(8, whole=8)
    ([2, 4, 8], [8])
    """
    return [first * 2**i for i in range(1 + max(0, round(math.log2(whole / first))))]


def _fit_c4(net: Any, backbone: Backbone, share: float, init: dict | None) -> None:
    """Three stages for the image, the fourth for every region."""
    stride, inner, outer = backbone.strides[2], *backbone.channels[2:]
    net.backbone.update(num_stages=3, strides=(1, 2, 2), dilations=(1, 1, 1), out_indices=(2,))
    generator = net.rpn_head.anchor_generator
    scales = [scale * 16 / stride * max(0.25, share) for scale in generator.scales]
    generator.update(scales=scales, strides=[stride])
    net.rpn_head.update(in_channels=inner, feat_channels=inner)
    roi = net.roi_head
    roi.bbox_roi_extractor.update(out_channels=inner, featmap_strides=[stride])
    roi.bbox_head.in_channels = outer
    roi.shared_head.update(
        depth=backbone.config['depth'], init_cfg={**init, 'fresh': ['norm.']} if init else None,
        **{k: v for k, v in backbone.options.items() if k != 'stem_channels'},
    )  # fmt: skip


def _fewer_regions(net: Any, share: float) -> None:
    """Small images have few regions that differ."""
    share = min(1.0, share)
    for part in (net.train_cfg.rpn_proposal, net.test_cfg.rpn):
        part.max_per_img = max(200, round(share * part.max_per_img))
        part.nms_pre = max(part.max_per_img, round(share * part.nms_pre))
    sampler = net.train_cfg.rcnn.sampler
    sampler.num = max(32, round(share**2 * sampler.num))  # they cost most of a step


def training_config(
    model: str,
    backbone: Backbone,
    data: str | Path,
    classes: Sequence[str],
    images: int,
    size: int = SIZE,
    schedule: Schedule | None = None,
    random: bool = False,
    seed: int = 0,
) -> Config:
    """A whole config of one run.

    Args:
        model: One of :data:`RECIPES`.
        backbone: To start from.
        data: What :func:`ttl_mm.tasks.detection.read_data.read_data` takes.
        classes: Their names.
        images: How many there are to train on; the schedule is fitted to them.
        size: Short side of the images.
        schedule: Choices of the user.
        random: Start with random weights in the place of those of ``backbone``.
        seed: Of everything that is random.
    """
    schedule = schedule or Schedule()
    cfg = detector_config(model, backbone, classes, size, random)
    _set_data(cfg, data, classes, size, schedule, masks=model == 'mask-rcnn-fpn')
    _set_length(cfg, schedule, images)
    cfg.randomness = {'seed': seed}
    return cfg


def plain_pipeline(size: int, boxes: bool = False) -> list[dict]:
    """Images of a short side, as every detector here is tested."""
    keys = ('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor')
    return [
        {'type': 'LoadImageFromFile'},
        {'type': 'Resize', 'scale': _scale(size), 'keep_ratio': True},
        *([{'type': 'LoadAnnotations', 'with_bbox': True}] if boxes else []),
        {'type': 'PackDetInputs', 'meta_keys': keys},
    ]


def _scale(size: float) -> tuple[int, int]:
    """Long and short side."""
    return round(size * 1333 / SIZE), round(size)


def _set_data(
    cfg: Config, data: str | Path, classes: Sequence[str], size: int, schedule: Schedule,
    masks: bool,
) -> None:  # fmt: skip
    source = {
        'type': 'ttl_mm.DetectionImages', 'data': str(Path(data).resolve()),
        'classes': list(classes),
    }  # fmt: skip
    sides = [(_scale(size)[0], round(share * size)) for share in SHORT_SIDES]
    train = [
        {'type': 'LoadImageFromFile'},
        {'type': 'LoadAnnotations', 'with_bbox': True, 'with_mask': masks},
        {'type': 'RandomChoiceResize', 'scales': sides, 'keep_ratio': True},
        {'type': 'RandomFlip', 'prob': 0.5},
        {'type': 'PackDetInputs'},
    ]
    val = plain_pipeline(size, boxes=True)
    for loader, split, pipeline in (
        (cfg.train_dataloader, 'train', train), (cfg.val_dataloader, 'val', val),
    ):  # fmt: skip
        loader.dataset = {**source, 'split': split, 'pipeline': pipeline}
        set_workers(loader, schedule.workers)
    cfg.train_dataloader.batch_size = schedule.batch_size
    cfg.test_dataloader = cfg.val_dataloader
    cfg.val_evaluator = cfg.test_evaluator = {'type': 'ttl_mm.BoxMetric'}


def _set_length(cfg: Config, schedule: Schedule, images: int) -> None:
    """The shares of warm-up and of the drops of the rate stay, as does the rate of an image."""
    steps, batch = steps_for(schedule, images), schedule.batch_size
    rate = cfg.optim_wrapper.optimizer.lr if schedule.rate is None else schedule.rate
    cfg.optim_wrapper.optimizer.lr = rate * batch / RATE_IMAGES
    warm_up, drops = cfg.param_scheduler
    warm_up.end = max(1, min(warm_up.end, steps // 10))
    share = steps / cfg.train_cfg.max_iters
    drops.milestones = [max(1, round(share * step)) for step in drops.milestones]
    interval = max(1, steps // VALIDATIONS)
    cfg.train_cfg = {'type': 'ttl_mm.IterLoop', 'max_iters': steps, 'val_interval': interval}
    hooks = cfg.default_hooks
    hooks.checkpoint = {
        'type': 'ttl_mm.CheckpointHook', 'by_epoch': False, 'interval': interval,
        'max_keep_ckpts': 1,
    }  # fmt: skip
    hooks.logger = {'type': 'LoggerHook', 'interval': max(1, min(50, steps // 100)),
                    'log_metric_by_epoch': False}  # fmt: skip
    hooks.precise_bn.iterations = max(2, min(200, 2 * images // batch))
    hooks.render = {'type': 'ttl_mm.RenderPredictionsHook', 'images': 4, 'validation': True}
    cfg.log_processor = {'type': 'LogProcessor', 'window_size': 50, 'by_epoch': False}
    cfg.auto_scale_lr = {'enable': False, 'base_batch_size': batch}
