"""``ttl detect train`` and ``ttl detect run`` end to end at tiny size, interrupted too."""

import json
import resource
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmdet.registry import TASK_UTILS
from mmengine.dataset import pseudo_collate
from mmengine.model import revert_sync_batchnorm

import ttl_mm.tasks.detection.parts  # noqa: F401 registers what the configs name
from tests.helpers.checkpoints import assert_bit_equal, make_resnet
from tests.helpers.detection_data import write_coco, write_voc
from tests.helpers.finetuning import (
    assert_config_out,
    assert_continues,
    assert_keeps_its_images,
    assert_nothing_again,
    plans,
    write_weights,
)
from tests.helpers.paths import ROOT
from tests.helpers.yolo_data import write_yolo
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.cli import main
from ttl_mm.config import read_config
from ttl_mm.datasets.decode import decode_image
from ttl_mm.engine.runner.config_check import check_arguments
from ttl_mm.errors import UserError
from ttl_mm.finetuning.network_file import write_network
from ttl_mm.finetuning.resnet import checked_backbone, open_backbone
from ttl_mm.finetuning.schedule import Schedule
from ttl_mm.registry import DATASETS, MODELS
from ttl_mm.tasks.detection.annotated import Annotated, Thing
from ttl_mm.tasks.detection.ap_tables import image_results, measure, mistakes, worst_images
from ttl_mm.tasks.detection.command import MODELS as NAMES
from ttl_mm.tasks.detection.detector import KIND, Detector, Found
from ttl_mm.tasks.detection.draw_boxes import COLORS, Label, draw_boxes
from ttl_mm.tasks.detection.own_config import (
    RECIPES,
    detector_config,
    epochs_for,
    steps_for,
    training_config,
)
from ttl_mm.tasks.detection.train_job import table

CLASSES = ('red', 'green')
SMALL = ['--size', '64', '--epochs', '2', '--batch-size', '2', '--workers', '0']


@pytest.fixture(scope='module')
def weights(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp('weights'))


@pytest.fixture(scope='module')
def voc(tmp_path_factory):
    return write_voc(tmp_path_factory.mktemp('voc'), 3, 2, CLASSES)


@pytest.fixture(scope='module')
def line(voc, weights, tmp_path_factory):
    out = tmp_path_factory.mktemp('jobs') / 'first'
    return ['detect', 'train', str(voc), '--weights', str(weights), *SMALL, '--out', str(out)]


@pytest.fixture(scope='module')
def finished(line, forked):
    """The folder of a finished job with its baseline."""
    assert main(line) == 0
    return Path(line[-1])


def test_boxes_become_a_detector_tables_pictures_and_a_page(finished):
    figures = json.loads((finished / 'figures.json').read_text())
    assert figures.keys() == {'pre-trained', 'random'}
    for found in figures.values():
        assert found.keys() == {'VOC boxes', 'COCO boxes', 'classes'}
    page = (finished / 'page/index.html').read_text()
    for words in ('COCO boxes', 'VOC boxes', 'random', 'Worst images', 'red'):
        assert words in page
    for start in figures:
        run = finished / f'runs/{start}_seed0'
        # three steps in all, a validation after each
        assert len(list(run.glob('rendered/iter_*/test00?.png'))) == 6
        assert {'detector.pth', 'detections.json'} <= {path.name for path in run.iterdir()}
        assert not list(run.glob('iter_*.pth'))
    assert (finished / 'detector.pth').is_file()


def test_both_starts_have_the_same_budget_and_only_one_the_weights(finished, weights):
    ours, theirs = plans(finished, weights)
    assert ours == theirs


def test_the_same_line_again_trains_nothing_and_another_is_refused(finished, line, capsys):
    assert 'VOC boxes, random' in assert_nothing_again(line, capsys)


def test_an_interrupted_job_is_continued_by_the_same_line(finished, line, tmp_path, capsys):
    assert_continues(line, tmp_path / 'second', 1, 'detector.pth', capsys)


def test_boxes_of_other_images_are_coco_json_and_pictures(finished, voc, tmp_path, capsys):
    images = voc / 'VOC2007/JPEGImages'
    (tmp_path / 'more').mkdir()
    (tmp_path / 'more/broken.jpg').write_bytes(b'<html>')
    line = ['detect', 'run', str(images), str(tmp_path / 'more'), '--score', '0', '--pictures', '2']
    line += ['--weights', str(finished / 'detector.pth'), '--out', str(tmp_path / 'found')]
    assert main(line) == 0
    assert 'left out 1 image that cannot be read: ' in capsys.readouterr().out
    found = json.loads((tmp_path / 'found/detections.json').read_text())
    assert len(found['images']) == 5
    assert {c['name'] for c in found['categories']} == set(CLASSES)
    sizes = {image['id']: (image['width'], image['height']) for image in found['images']}
    for entry in found['annotations']:
        x, y, width, height = entry['bbox']
        most = sizes[entry['image_id']]
        assert 0 <= x <= x + width <= most[0] + 0.1
        assert 0 <= y <= y + height <= most[1] + 0.1
        assert 0 <= entry['score'] <= 1
    assert len(list((tmp_path / 'found/pictures').iterdir())) == 2

    line[line.index('--score') + 1] = '1'  # which no box has
    assert main([*line[:-1], str(tmp_path / 'none')]) == 0
    assert json.loads((tmp_path / 'none/detections.json').read_text())['annotations'] == []
    for picture in (tmp_path / 'none/pictures').iterdir():
        (photo,) = images.glob(f'{picture.stem.split("_")[-1]}.jpg')
        assert (cv2.imread(str(picture)) == decode_image(photo)).all()


def test_config_out_writes_the_config_that_would_be_trained(finished, line, tmp_path, capsys):
    assert_config_out(line, tmp_path / 'mine.py', capsys)


def test_shapes_are_needed_for_masks_and_a_resnet_for_everything(line, tmp_path, capsys):
    assert main([*line[:-1], str(tmp_path / 'x'), '--model', 'mask-rcnn-fpn']) == 2
    assert 'have boxes only: take faster-rcnn-fpn' in capsys.readouterr().err
    path = tmp_path / 'other.pth'
    meta = {'backbone': {'type': 'ttl_mm.AdaptedBackbone', 'network': 'timm/test_vit'}}
    torch.save({'state_dict': {'x': torch.ones(1)}, 'meta': meta}, path)
    with pytest.raises(
        UserError, match='holds timm/test_vit, and the stages of a ResNet are needed'
    ):
        open_backbone(str(path))


@pytest.mark.parametrize('name', RECIPES)
@pytest.mark.usefixtures('mmdet_scope')
def test_every_model_trains_from_the_weights_and_comes_back_from_its_file(name, weights, tmp_path):
    data = write_coco(tmp_path, 2, 2, CLASSES)
    backbone = open_backbone(str(weights))
    cfg = training_config(name, backbone, data, CLASSES, images=2, size=64)
    check_arguments(cfg)
    model = revert_sync_batchnorm(MODELS.build(cfg.model))
    model.init_weights()
    own = model.backbone.state_dict()
    if name == 'faster-rcnn-c4':
        own |= model.roi_head.shared_head.layer4.state_dict(prefix='layer4.')
    assert_bit_equal(dict(own), load_backbone_state(weights))
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    batch = model.data_preprocessor(pseudo_collate([dataset[0], dataset[1]]), training=True)
    losses = model(**batch, mode='loss')
    total = sum(sum(v) if isinstance(v, list) else v for k, v in losses.items() if 'loss' in k)
    total.backward()
    assert torch.isfinite(total)
    assert model.backbone.conv1.weight.grad.abs().sum() > 0

    path = tmp_path / 'detector.pth'
    torch.save({'state_dict': model.state_dict()}, tmp_path / 'run.pth')
    write_network(tmp_path / 'run.pth', path, KIND.description(name, backbone, CLASSES, 64))
    detector = Detector(path, 'cpu')
    assert_bit_equal(dict(detector.model.state_dict()), dict(model.state_dict()))
    (found,) = detector.find([data / 'val2017/000001.jpg'])
    assert len(found.boxes) == len(found.scores) == len(found.labels)
    assert (found.masks is not None) == (name == 'mask-rcnn-fpn')
    assert sorted(NAMES) == sorted(RECIPES)


def test_usual_networks_get_the_widths_of_the_recipes(tmp_path):
    path = tmp_path / 'r50.pth'
    torch.save({'state_dict': make_resnet(50).state_dict()}, path)
    backbone = open_backbone(str(path))
    ours = detector_config('mask-rcnn-fpn', backbone, ['x'] * 80).model
    recipe = read_config(ROOT / 'projects/detection/configs/mask-rcnn_r50-fpn_1x_coco.py').model
    for part in ('neck', 'rpn_head', 'roi_head', 'train_cfg', 'test_cfg'):
        mine, theirs = dict(ours[part]), dict(recipe[part])
        if part == 'neck':
            assert mine.pop('start_level') == 0
        if part == 'roi_head':  # the width of its only layer, 1024 there as well
            assert mine['bbox_head'] == theirs['bbox_head']
        assert mine == theirs


@pytest.mark.parametrize(
    ('images', 'epochs', 'steps'),
    [(117_266, 12, 351_798), (1000, 130, 32_500), (80, 150, 3000), (8, 1000, 2000)],
)
def test_the_schedule_is_fitted_to_the_number_of_images(images, epochs, steps):
    schedule = Schedule()
    assert (epochs_for(schedule, images), steps_for(schedule, images)) == (epochs, steps)
    assert steps_for(Schedule(epochs=3), 8) == 6


def test_rates_and_drops_keep_their_place(weights, tmp_path):
    cfg = training_config('faster-rcnn-fpn', open_backbone(str(weights)), tmp_path, CLASSES, 900)
    steps = cfg.train_cfg.max_iters
    assert cfg.param_scheduler[1].milestones == [round(steps * 2 / 3), round(steps * 8 / 9)]
    assert cfg.optim_wrapper.optimizer.lr == pytest.approx(0.02 * 4 / 16)
    assert cfg.param_scheduler[0].end == min(1000, steps // 10)


def anchors_that_overlap(net, size, rng):
    """Mean number of anchors of an object that a network takes as examples of it."""
    head = net.rpn_head if 'roi_head' in net else net.bbox_head
    generator = TASK_UTILS.build(head.anchor_generator)
    grids = [(-(-size // height), -(-size // width)) for width, height in generator.strides]
    left, top, right, bottom = torch.cat(generator.grid_priors(grids, device='cpu')).numpy().T
    counts = []
    for width, height, across, down in rng.uniform(size=(150, 4)):
        w, h = size * (0.1 + 0.8 * np.array([width, height]))
        x, y = across * (size - w), down * (size - h)
        both = (np.minimum(right, x + w) - np.maximum(left, x)).clip(0)
        both *= (np.minimum(bottom, y + h) - np.maximum(top, y)).clip(0)
        union = (right - left) * (bottom - top) + w * h - both
        counts.append((both / union >= 0.7).sum())
    return np.mean(counts)


@pytest.mark.parametrize('name', ['faster-rcnn-fpn', 'retinanet'])
@pytest.mark.parametrize('size', [128, 400])
@pytest.mark.usefixtures('mmdet_scope')
def test_an_object_in_a_small_image_has_many_anchors_as_in_a_large_one(name, size, weights):
    backbone = open_backbone(str(weights))
    small, large = (
        anchors_that_overlap(
            detector_config(name, backbone, CLASSES, s).model, s, np.random.default_rng(0)
        )
        for s in (size, 800)
    )
    assert small > 0.5 * large > 0


@pytest.mark.parametrize(
    'config',
    [None, {'type': 'ResNet'}, {'type': 'x.Evil', 'depth': 18},
     {'type': 'mmpretrain.ResNet', 'depth': 7}, {'type': 'mmpretrain.ResNet', 'depth': 18, 'a': 1}],
)  # fmt: skip
def test_a_file_cannot_name_any_network(config):
    with pytest.raises(UserError, match=r'no ResNet|is refused'):
        checked_backbone(config)


@pytest.mark.parametrize('meta', [{}, {'detector': 'yolo', 'classes': ['a'], 'backbone': {},
    'input': {'size': 64, 'mean': [1, 1, 1], 'std': [1, 1, 1]}}])  # fmt: skip
def test_a_file_that_is_no_detector_is_refused(meta, tmp_path):
    path = tmp_path / 'x.pth'
    torch.save({'state_dict': {}, 'meta': meta}, path)
    with pytest.raises(UserError, match='name the detector'):
        Detector(path)


@pytest.mark.parametrize('name', RECIPES)
def test_a_small_file_that_promises_a_huge_detector_is_refused_before_it_is_built(name, tmp_path):
    path = tmp_path / 'x.pth'
    huge = {'type': 'mmpretrain.ResNet', 'depth': 152, 'base_channels': 4000}
    meta = {'detector': name, 'classes': ['a'], 'backbone': huge,
            'input': {'size': 64, 'mean': [1, 1, 1], 'std': [1, 1, 1]}}  # fmt: skip
    torch.save({'state_dict': {'backbone.conv1.weight': torch.ones(1)}, 'meta': meta}, path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match='instead of'):
        Detector(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def scene():
    things = (Thing('red', (0, 0, 40, 40)), Thing('green', (50, 50, 90, 90)))
    return Annotated(Path('a.jpg'), 96, 96, things)


def found_in_scene(*rows):
    boxes, scores, labels = zip(*rows) if rows else ((), (), ())
    return Found(np.array(boxes, float).reshape(-1, 4), np.array(scores), np.array(labels, int))


def test_perfect_boxes_have_an_ap_of_one_and_missed_ones_of_a_half():
    perfect = found_in_scene(((0, 0, 40, 40), 0.9, 0), ((50, 50, 90, 90), 0.8, 1))
    figures = measure([scene()], [perfect], CLASSES)
    assert figures['COCO boxes']['AP'] == pytest.approx(1)
    assert figures['VOC boxes']['AP50'] == pytest.approx(1)
    half = found_in_scene(((0, 0, 40, 40), 0.9, 0), ((0, 50, 40, 90), 0.8, 1))
    figures = measure([scene()], [half], CLASSES)
    assert figures['COCO boxes']['AP50'] == pytest.approx(0.5)
    assert figures['classes']['green']['VOC AP50'] == 0
    nothing = measure([scene()], [found_in_scene()], CLASSES)
    assert nothing['COCO boxes']['AP'] == 0
    results = image_results([scene()] * 3, [perfect, half, found_in_scene()], CLASSES)
    assert [mistakes(result) for result in results] == [0, 2, 2]
    assert worst_images(results, 5) == [1, 2]


@pytest.mark.parametrize('rows', [[((0, 0, 40, 40), 0.8, 0)],
    [((0, 0, 40, 40), 0.8, 0), ((60, 60, 90, 90), 0.9, 0)]])  # fmt: skip
def test_a_difficult_object_is_neither_hit_nor_mistake_by_both_protocols(rows):
    things = (Thing('red', (0, 0, 40, 40)), Thing('red', (60, 60, 90, 90), hard=True))
    image = Annotated(Path('a.jpg'), 96, 96, things)
    figures = measure([image], [found_in_scene(*rows)], CLASSES)
    assert figures['COCO boxes']['AP50'] == pytest.approx(1)
    assert figures['VOC boxes']['AP50'] == pytest.approx(1)


def test_figures_are_a_table():
    found = {'COCO boxes': {'AP': 0.1, 'AP50': 0.5, 'AP75': None}}
    assert 'COCO boxes, pre-trained      10.0   50.0    0.0' in table({'pre-trained': found})


def test_boxes_are_drawn_in_the_color_of_their_class():
    image = np.zeros((50, 60, 3), np.uint8)
    drawn = draw_boxes(image, [Label((10, 20, 40, 45), 1, 'x')])
    assert not image.any()
    assert tuple(drawn[44, 30]) == COLORS[1]
    assert not drawn[48:].any()


def test_yolo_files_are_a_dataset_of_mmdet(tmp_path):
    data = write_yolo(tmp_path / 'yolo', {'train': 2, 'val': 2}, CLASSES)
    (data / 'labels/train/000.txt').write_text('0 0.3 0.3 0.2 0.2\n1 0.6 0.6 0.2 0.2\n')
    (data / 'labels/train/001.txt').write_text('')
    settings = {'type': 'ttl_mm.DetectionImages', 'data': str(data), 'classes': CLASSES}
    splits = [DATASETS.build({**settings, 'split': s, 'pipeline': []}) for s in ('train', 'val')]
    assert [len(split) for split in splits] == [1, 2]  # training leaves out the empty image
    info = splits[0].get_data_info(0)
    assert len(info['instances']) == 2
    assert all(i['ignore_flag'] == 0 for i in info['instances'])


def test_a_job_is_not_continued_on_other_images(voc, line, tmp_path, capsys):
    copy = shutil.copytree(voc, tmp_path / 'copy')
    line = [*line[:2], str(copy), *line[3:-1], str(tmp_path / 'x')]
    fewer = copy / 'VOC2007/ImageSets/Main/test.txt'
    assert_keeps_its_images(line, lambda: fewer.write_text('test000\n'), capsys)
