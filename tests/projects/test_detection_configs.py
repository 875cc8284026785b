"""The detection configs: the recipes' values, and no defect of the configs they build on.

Every check of a defect is also run on a config with that defect put back, where it must fail.
"""

import math
import re
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from itertools import product
from runpy import run_path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS

import ttl_mm.tasks.detection.parts  # noqa: F401 registers what the configs name
from tests.helpers.paths import ROOT
from ttl_mm.compat.torch_private import BatchNorm
from ttl_mm.config import merge_options
from ttl_mm.models.build_loaded import WithoutWeights
from ttl_mm.registry import HOOKS, METRICS, MODELS

FOLDER = ROOT / 'projects' / 'detection' / 'configs'
COCO, VOC = 'mask-rcnn_r50-c4_2x_coco', 'faster-rcnn_r50-c4_24k_voc0712'
MAIN = [COCO, f'{COCO}_moco', VOC, f'{VOC}_moco']
FPN = [f'{m}_r50-fpn_{x}x_coco' for m in ('mask-rcnn', 'faster-rcnn', 'retinanet') for x in (1, 2)]
read = cache(lambda name: Config.fromfile(FOLDER / f'{name}.py'))


def load(name: str) -> Config:
    return deepcopy(read(name))


def parts_of_training_data(cfg: Config) -> list:
    return cfg.train_dataloader.dataset.get('datasets', [cfg.train_dataloader.dataset])


def resize_of(part: dict) -> dict:
    return next(step for step in part['pipeline'] if step.type == 'RandomChoiceResize')


def is_voc(cfg: Config) -> bool:
    return cfg.model.type == 'FasterRCNN'


# --- one check per defect (the spec's numbers), and how to put the defect back -----------------

DEFECTS = {}
TWELVE_EPOCHS = dict(_delete_=True, type='EpochBasedTrainLoop', max_epochs=12)
CAFFE = 'open-mmlab://detectron2/resnet50_caffe'
CAFFE_IMAGES = dict(mean=[103.53, 116.28, 123.675], std=[1.0, 1.0, 1.0], bgr_to_rgb=False)
FROZEN = dict(type='ResLayer', norm_cfg=dict(type='BN', requires_grad=False))


def fails_after(defect: Callable) -> Callable:
    """Note how to put back the defect that a check looks for."""
    return lambda check: DEFECTS.setdefault(check, defect) and check


@fails_after(lambda c: c.merge_from_dict({'train_cfg': TWELVE_EPOCHS}))
def trains_as_long_as_its_name_says(cfg: Config) -> None:  # 1
    assert cfg.train_cfg.type == 'ttl_mm.IterLoop'
    assert cfg.train_cfg.max_iters == (24_000 if is_voc(cfg) else 180_000)
    assert 'max_epochs' not in cfg.train_cfg
    assert cfg.train_dataloader.sampler == {'type': 'ttl_mm.EpochSampler'}


@fails_after(lambda c: c.param_scheduler[1].update(type='MultiStepLR', milestones=[200_000]))
def learning_rate_decays_within_the_run(cfg: Config) -> None:  # 1
    decay = cfg.param_scheduler[1]
    assert not any(scheduler.by_epoch for scheduler in cfg.param_scheduler)
    if decay.type == 'MultiStepLR':
        assert max(decay.milestones) < cfg.train_cfg.max_iters
    else:
        assert decay.T_max == decay.end == cfg.train_cfg.max_iters


@fails_after(lambda c: c.model.roi_head.shared_head.update(init_cfg=None))
def res5_starts_from_pretraining(cfg: Config) -> None:  # 2
    starts = [cfg.model.backbone.init_cfg, cfg.model.roi_head.shared_head.init_cfg]
    assert [start.type for start in starts] == ['ttl_mm.PretrainedBackbone'] * 2
    assert starts[0].checkpoint == starts[1].checkpoint


@fails_after(lambda c: c.model.data_preprocessor.update(CAFFE_IMAGES))
def images_are_normalized_as_in_pretraining(cfg: Config) -> None:  # 3
    assert 'data_preprocessor' not in cfg  # the runner would not use it
    preprocessor = cfg.model.data_preprocessor
    assert preprocessor.bgr_to_rgb is True
    assert preprocessor.mean == [123.675, 116.28, 103.53]
    assert preprocessor.std == [58.395, 57.12, 57.375]


@fails_after(lambda c: c.model.roi_head.shared_head.init_cfg.update(checkpoint=CAFFE))
def nothing_comes_from_caffe(cfg: Config) -> None:  # 4
    assert not re.search('caffe|open-mmlab', Config(dict(model=cfg.model)).pretty_text)
    assert cfg.model.backbone.style == 'pytorch'


@fails_after(lambda c: c.train_dataloader.dataset.update(ignore_keys=None))
def parts_of_voc_are_one_dataset(cfg: Config) -> None:  # 5
    if is_voc(cfg):
        assert cfg.train_dataloader.dataset.ignore_keys == ['dataset_type']


@fails_after(lambda c: c.test_evaluator.update(type='mmdet.VOCMetric', metric='mAP'))
def evaluator_reports_ap_and_ap75(cfg: Config) -> None:  # 6
    for evaluator in (cfg.val_evaluator, cfg.test_evaluator):
        if is_voc(cfg):
            assert METRICS.get(evaluator.type).__name__ == 'VOCDetectionMetric'
        else:
            assert evaluator.metric == ['bbox', 'segm']


@fails_after(lambda c: c.optim_wrapper.paramwise_cfg.update(norm_decay_mult=1.0))
def norms_do_not_decay(cfg: Config) -> None:  # 7
    assert cfg.optim_wrapper.paramwise_cfg.norm_decay_mult == 0


@fails_after(lambda c: c.default_hooks.pop('precise_bn'))
def norms_are_measured_at_the_end(cfg: Config) -> None:  # 7
    assert cfg.default_hooks.precise_bn.iterations == 200
    assert HOOKS.get(cfg.default_hooks.precise_bn.type).__name__ == 'PreciseBNHook'


@fails_after(lambda c: c.model.train_cfg.rpn.update(allowed_border=0))
def anchors_may_cross_the_border(cfg: Config) -> None:  # 7
    assert cfg.model.train_cfg.rpn.allowed_border == -1


@fails_after(lambda c: resize_of(parts_of_training_data(c)[-1]).update(scales=[(1333, 800)]))
def scales_are_the_recipes(cfg: Config) -> None:  # 8
    moco = cfg.optim_wrapper.optimizer.lr == 0.02
    longest = 1333 if moco or is_voc(cfg) else 1200
    sides = [*range(480 if is_voc(cfg) else 640, 801, 32), *([] if moco else [832, 864, 880])]
    for resize in map(resize_of, parts_of_training_data(cfg)):
        assert resize.scales == [(longest, side) for side in sides]
        assert resize.keep_ratio


@fails_after(lambda c: c.model.roi_head.update(shared_head=FROZEN))
def norms_are_trained(cfg: Config) -> None:
    backbone, res5 = cfg.model.backbone, cfg.model.roi_head.shared_head
    assert backbone.norm_cfg == res5.norm_cfg == dict(type='SyncBN', requires_grad=True)
    assert (backbone.norm_eval, backbone.frozen_stages) == (False, -1)
    assert MODELS.get(res5.type).__name__ == 'Res5'


@fails_after(lambda c: parts_of_training_data(c)[-1].filter_cfg.update(bbox_min_size=32))
def difficult_and_small_objects_are_trained_on(cfg: Config) -> None:
    for part in parts_of_training_data(cfg) if is_voc(cfg) else []:
        steps = [step.type for step in part.pipeline[1:3]]
        assert steps == ['LoadAnnotations', 'ttl_mm.VOCTrainingBoxes']
        assert part.filter_cfg == dict(filter_empty_gt=True)


VOC_ONLY = {parts_of_voc_are_one_dataset, difficult_and_small_objects_are_trained_on}


@pytest.mark.parametrize('check', DEFECTS, ids=lambda check: check.__name__)
def test_defect_is_absent_and_would_be_seen(check) -> None:
    for name in MAIN:
        check(load(name))
    for name in MAIN[2:] if check in VOC_ONLY else MAIN:
        broken = load(name)
        DEFECTS[check](broken)
        with pytest.raises((AssertionError, AttributeError, KeyError)):
            check(broken)


def test_baselines_differ_only_in_their_initial_weights() -> None:
    names = {f'{name}_{kind}' for name, kind in product(MAIN, ('random', 'supervised'))}
    assert {path.stem for path in FOLDER.glob('*.py')} == {*names, *MAIN, *FPN}
    readme = (FOLDER.parent / 'README.md').read_text()
    for name in names:
        main, baseline = load(name.rpartition('_')[0]).to_dict(), load(name).to_dict()
        weights = baseline.pop('weights', None)
        for model in (main['model'], baseline['model']):
            parts = model['backbone'], model['roi_head']['shared_head']
            starts = [part.pop('init_cfg') for part in parts]
        assert baseline == main
        if name.endswith('random'):
            assert starts == [None, None]
        else:
            res5_starts_from_pretraining(load(name))
            assert f"'{weights}', hash_prefix='{weights[-12:-4]}'" in readme  # how to get them


def learning_rates(cfg: Config, steps: int) -> list[float]:
    """What mmengine's schedulers really do in the first ``steps`` iterations."""
    optimizer = torch.optim.SGD([torch.zeros(1)], cfg.optim_wrapper.optimizer.lr)
    builds = [dict(settings, optimizer=optimizer) for settings in cfg.param_scheduler]
    schedulers = [PARAM_SCHEDULERS.build(settings) for settings in builds]
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]['lr'])
        for scheduler in schedulers:
            scheduler.step()
    return rates


def reference_rate(base: float, iteration: int, total: int, warmup: int) -> float:
    """detectron2's WarmupCosineLR with factor 1e-4."""
    rate = 0.5 * (1 + math.cos(math.pi * max(iteration, warmup) / total))
    return base * (1e-4 + (rate - 1e-4) * min(iteration / warmup, 1))


def test_learning_rate_follows_the_reference() -> None:
    for name, base, warmup, total in ((COCO, 0.05, 10_000, 180_000), (VOC, 0.2, 1_200, 24_000)):
        rates = learning_rates(load(name), min(total, 24_000))
        expected = [reference_rate(base, i, total, warmup) for i in range(len(rates))]
        assert rates == pytest.approx(expected, abs=0.005 * base)
        assert rates[0] == pytest.approx(base * 1e-4)
    assert rates[-1] < 1e-6 * base  # VOC's, at the end of the run

    rates = learning_rates(load(f'{VOC}_moco'), 24_000)  # falls in two steps
    assert [rates[i] for i in (0, 100, 17_999, 18_000, 22_000)] == pytest.approx(
        [0.02e-3, 0.02, 0.02, 0.002, 0.0002]
    )


@pytest.mark.parametrize('name', [COCO, VOC])
def test_values_of_the_reference(name: str) -> None:
    """The rows of the table of hyper-parameters that mmdet's base already holds."""
    cfg = load(name)
    train, test = cfg.model.train_cfg, cfg.model.test_cfg
    assert cfg.train_dataloader.batch_size * 8 == 16
    assert cfg.train_dataloader.batch_sampler.type == 'AspectRatioBatchSampler'
    optimizer = dict(type='SGD', lr=0.2 if is_voc(cfg) else 0.05, momentum=0.9, weight_decay=1e-4)
    assert cfg.optim_wrapper.optimizer == optimizer
    assert 'clip_grad' not in cfg.optim_wrapper
    assert (train.rpn.sampler.num, train.rpn.sampler.pos_fraction) == (256, 0.5)
    assert (train.rpn_proposal.nms_pre, train.rpn_proposal.max_per_img) == (12000, 2000)
    assert (train.rcnn.sampler.num, train.rcnn.sampler.pos_fraction) == (512, 0.25)
    assert train.rcnn.sampler.add_gt_as_proposals
    assert (test.rpn.nms_pre, test.rpn.max_per_img) == (6000, 1000)
    assert (test.rcnn.score_thr, test.rcnn.max_per_img) == (0.05, 100)
    assert test.rcnn.nms.iou_threshold == 0.5
    align = dict(type='RoIAlign', output_size=14, sampling_ratio=0)
    assert cfg.model.roi_head.bbox_roi_extractor.roi_layer == align
    for loader in (cfg.val_dataloader, cfg.test_dataloader):
        assert loader.dataset.pipeline[1].scale == (1333, 800)
        assert loader.dataset.test_mode
    years = [part.ann_file for part in parts_of_training_data(cfg)]
    if is_voc(cfg):
        assert years == [f'VOC{y}/ImageSets/Main/trainval.txt' for y in (2007, 2012)]
        assert cfg.test_dataloader.dataset.ann_file == 'VOC2007/ImageSets/Main/test.txt'
        assert cfg.model.roi_head.bbox_head.num_classes == 20
    else:
        assert years == ['annotations/instances_train2017.json']
        assert cfg.model.data_preprocessor.pad_mask
        assert cfg.model.roi_head.mask_head.num_convs == 0


@pytest.mark.usefixtures('mmdet_scope')
def test_optimizer_spares_norms_alone() -> None:
    """Weight decay 0 for every norm, 1e-4 for all else, biases included."""
    cfg = load(f'{VOC}_random')
    with WithoutWeights():
        model = MODELS.build(dict(cfg.model, _scope_='mmdet'))
    groups = build_optim_wrapper(model, cfg.optim_wrapper).optimizer.param_groups
    decay = {id(p): group['weight_decay'] for group in groups for p in group['params']}
    norms = {id(p) for m in model.modules() if isinstance(m, BatchNorm) for p in m.parameters()}
    assert len(decay) == len(list(model.parameters()))
    assert {decay[i] for i in norms} == {0.0}
    assert {decay[i] for i in decay.keys() - norms} == {1e-4}


def test_every_setting_of_the_smoke_run_exists() -> None:
    smoke = run_path(str(FOLDER.parent / 'smoke.py'))
    assert sorted(smoke['CONFIGS']) == sorted(MAIN)
    for name in MAIN:
        merge_options(load(name), smoke['options'](name, has_voc2012=False, images=2))


@pytest.mark.parametrize('name', FPN)
def test_fpn_detectors_train_all_norms_by_the_schedules_of_moco(name: str) -> None:
    cfg = load(name)
    times = 2 if '_2x_' in name else 1
    assert cfg.train_cfg.max_iters == times * 90_000
    assert cfg.param_scheduler[0].end == 1_000
    assert cfg.param_scheduler[1].milestones == [times * 60_000, times * 80_000]
    assert cfg.optim_wrapper.optimizer.lr == (0.01 if 'retinanet' in name else 0.02)
    assert cfg.model.backbone.frozen_stages == -1
    assert not cfg.model.backbone.norm_eval
    norm = {'type': 'SyncBN', 'requires_grad': True}
    parts = [cfg.model.backbone, cfg.model.neck]
    if 'retinanet' not in name:
        parts.append(cfg.model.roi_head.bbox_head)
    if 'mask' in name:
        parts.append(cfg.model.roi_head.mask_head)
    assert all(part.norm_cfg == norm for part in parts)
    assert cfg.model.backbone.init_cfg.type == 'ttl_mm.PretrainedBackbone'
    (resize,) = (s for s in cfg.train_dataloader.dataset.pipeline if 'Resize' in s.type)
    assert {side for _, side in resize.scales} == {*range(640, 801, 32)}
    masks = cfg.train_dataloader.dataset.pipeline[1].get('with_mask', False)
    assert masks == ('mask' in name)
