"""Results of every kind of evaluation, in the files that their own writers make."""

import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
from mmengine import Config, dump
from mmengine.logging import MessageHub
from mmengine.visualization import LocalVisBackend
from torch import nn

from tests.helpers.images import make_folder
from tests.helpers.page import page_of
from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.cli import main
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.engine import ResultHook
from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import FeatureWriter
from ttl_mm.report import write_report

BASIS = ['found in', 'weights', 'data (with fingerprints)', 'settings']


def write_features(path, names, labels, **about):
    """Features of ten dimensions, the class in one of them."""
    features = np.random.default_rng(0).normal(size=(len(names), 10)).astype(np.float32)
    features[np.arange(len(names)), labels] += 9
    about = {'weights': 'ab' * 32, 'checkpoint': 'net.pth', 'versions': {}, 'crop': '32', **about}
    writer = FeatureWriter(path, {4: 10}, names, ['ant', 'bee'], about, len(names))
    writer.write(0, {4: features}, np.asarray(labels))
    writer.finish()
    return str(path)


@pytest.fixture
def evaluated(tmp_path):
    """A folder with figures of ``ttl eval``."""
    folder = tmp_path / 'evaluated'
    files = [
        write_features(folder / f'{split}.safetensors', list('abcdef'), [0, 1] * 3, data=split * 10)
        for split in ('train', 'test')
    ]
    assert main(['eval', *files, '--neighbors', '1', '3', '--out', str(folder)]) == 0
    return folder


def test_figures_of_eval_have_a_section_for_each_protocol(evaluated, tmp_path):
    figures = json.loads((evaluated / 'figures.json').read_text())
    for given in (evaluated, evaluated / 'figures.json', tmp_path):
        page = page_of(tmp_path, given)
        knn, linear = page.tables.values()
        titles = ['Weighted kNN, cosine', 'Logistic regression on frozen features']
        assert list(page.tables) == titles
        header, *rows = knn[0]
        assert header == [*BASIS, 'top-1 (%)']
        assert [row[-1] for row in rows] == [f'{f["value"]:.2f}' for f in figures[:2]]
        data = '6 images to train on, 6 to test on, traintra/testtest'
        assert rows[1][:3] == ['evaluated', 'net.pth (abababab)', data]
        assert ['1' in rows[0][3], '3' in rows[1][3]] == [True, True]
        assert linear[0][1][-1] == f'{figures[2]["value"]:.2f}'


def test_figures_inside_a_work_dir_stand_beside_its_curves(evaluated, tmp_path):
    run = write_start(tmp_path / 'run', '1', 1, EPOCH)
    evaluated.rename(run / 'eval')
    page = page_of(tmp_path, run)
    assert page.tables['Runs'][0][1][0] == 'run'
    assert page.tables['Weighted kNN, cosine'][0][1][0] == 'eval'


def test_figures_of_reid_share_a_row(tmp_path):
    names = ['query/0001_c1s1_1.jpg', 'query/0002_c1s1_1.jpg']
    names += [name.replace('query', 'gallery').replace('c1', 'c2') for name in names]
    file = write_features(
        tmp_path / 'reid' / 'reid.safetensors', names, [0, 1, 0, 1],
        data='data' * 8, flip='n(f + m)', num_query=2,
    )  # fmt: skip
    assert main(['reid', 'eval', file]) == 0
    ((table,),) = page_of(tmp_path, tmp_path / 'reid').tables.values()
    assert table[0][4:7] == ['rank-1 (%)', 'rank-5 (%)', 'rank-10 (%)']
    assert table[1][2:5] == ['2 queries, 2 images in the gallery, datadata', table[1][3], '100.00']
    assert 'flip n(f + m)' in table[1][3]


def write_linear(work_dir, protocol, accuracies):
    """What a run with ResultHook leaves behind."""
    last, losses = len(accuracies) * EPOCH, {5: float('nan')}
    write_start(work_dir, '1', 1, last, probes=False, loss=lambda i: losses.get(i, 1.0))
    config = work_dir / '1' / 'vis_data' / 'config.py'
    hook = "default_hooks = dict(result=dict(type='ttl_mm.ResultHook', protocol='kind'))"
    start = "model = dict(backbone=dict(init_cfg=dict(checkpoint='epoch_9.pth')))"
    config.write_text(f'{config.read_text()}\n{hook}\n{start}\n')
    data = make_folder(work_dir / 'images', count=2)
    loader = SimpleNamespace(dataset=ImageFolder(str(data), with_label=True))
    runner = SimpleNamespace(
        _train_loop=SimpleNamespace(),  # it trains, so that results are kept
        work_dir=work_dir, max_epochs=len(accuracies), logger=logging.getLogger('test'),
        model=SimpleNamespace(backbone=nn.Linear(2, 2)),
        train_dataloader=loader, val_dataloader=loader, message_hub=MessageHub('test'),
    )  # fmt: skip
    hook = ResultHook(protocol)
    for runner.epoch, accuracy in enumerate(accuracies, 1):
        hook.after_val_epoch(runner, {'accuracy/top1': accuracy})
    return work_dir


def test_linear_and_semi_supervised_runs_never_share_a_table(tmp_path):
    linear = write_linear(tmp_path / 'a', 'linear, 100 epochs', [50.0, 70.0, 60.0])
    semi = write_linear(tmp_path / 'b', '1 % of the labels', [30.0])
    page = page_of(tmp_path, linear, semi)
    assert set(page.tables) == {'Linear, 100 epochs', '1 % of the labels'}
    results, runs = page.tables['Linear, 100 epochs']
    assert [(row[0], row[3], row[4]) for row in results[1:]] == [
        ('a', 'last epoch: 3 of 3', '60.00'),
        ('a', 'best epoch: 2, chosen by the test images', '70.00'),
    ]
    assert results[1][1].startswith('epoch_9.pth (')
    assert results[1][2].startswith('6 images to train on, 6 to test on, ')
    assert [row[0] for row in runs[1:]] == ['a']
    assert [row[4] for row in page.tables['1 % of the labels'][0][1:]] == ['30.00', '30.00']
    assert 'a: the loss was not finite at 1 logged iterations, first at 5.' in page.text


def write_detection(work_dir, prefix, lr, load_from=None):
    """A run of two validations, as mmdet's configs log it; or the config of a test."""
    backend = LocalVisBackend(str(work_dir / '1' / 'vis_data'))
    data = {'type': 'CocoDataset', 'data_root': 'data/coco/', 'ann_file': 'val.json'}
    config = {
        'model': {'type': 'MaskRCNN', 'backbone': {'init_cfg': {'checkpoint': 'ttl.pth'}}},
        'train_cfg': {'type': 'IterBasedTrainLoop', 'max_iters': 40},
        'train_dataloader': {'batch_size': 2},
        'val_dataloader': {'dataset': data},
        'test_dataloader': {'dataset': data},
        'optim_wrapper': {'optimizer': {'lr': lr}},
        'load_from': load_from,
    }
    backend.add_config(Config(config))
    for iteration in () if load_from else (20, 40):
        backend.add_scalars({'loss': 1.0, 'lr': lr, 'iter': iteration}, step=iteration)
        metrics = {f'{prefix}bbox_mAP': iteration / 100, f'{prefix}bbox_mAP_s': -1.0}
        backend.add_scalars(metrics, step=iteration)
    return work_dir


def test_detection_runs_compare_within_a_recipe(tmp_path):
    rates = {'a': 0.02, 'b': 0.02, 'c': 0.05}
    runs = [write_detection(tmp_path / name, 'coco/', lr) for name, lr in rates.items()]
    page = page_of(tmp_path, *runs)
    recipe = 'Detection, COCO AP (%), model MaskRCNN, iterations 40, learning rate '
    assert set(page.tables) == {f'{recipe}0.02', f'{recipe}0.05'}
    results, summary = page.tables[f'{recipe}0.02']
    row = ['ttl.pth', 'data/coco/val.json', 'last validation of the run', '40.00', '–']
    assert results == [[*BASIS, 'bbox_mAP', 'bbox_mAP_s'], ['a', *row], ['b', *row]]
    assert [row[:2] for row in summary[1:]] == [['a', 'finished'], ['b', 'finished']]
    assert (tmp_path / 'page' / 'protocol1_coco_bbox_mAP.png').exists()


def test_the_two_measures_on_voc_are_two_protocols(tmp_path):
    folder = write_detection(tmp_path / 'run', 'voc/', 0.2, load_from='iter_40.pth')
    dump({'voc/AP': 0.5, 'voc/coco101_AP': 0.4, 'time': 1.0}, folder / '1' / '1.json')
    found = ['run', 'iter_40.pth, which started from ttl.pth']
    for given in (folder, folder / '1' / '1.json'):
        tables = page_of(tmp_path, given).tables
        rows = {title.split(', ')[1]: table[1] for title, (table,) in tables.items()}
        assert {measure: [*row[:2], row[-1]] for measure, row in rows.items()} == {
            'VOC2007 11-point AP (%)': [*found, '50.00'],
            'AP (%) on VOC by the rules of COCO': [*found, '40.00'],
        }


def test_files_of_others_are_named(tmp_path):
    unknown = 'holds no results that are known here'
    for name, content, message in [
        ('results.json', '{"last": 3}', unknown),
        ('figures.json', '[{"a": 1}]', unknown),
        ('figures.json', '[{"pro', unknown),
        ('package.json', '{"name": "x"}', 'holds no log and no results'),
        ('scan.json', '7', unknown),
    ]:
        file = tmp_path / name
        file.write_text(content)
        with pytest.raises(UserError, match=f'{name} {message}') as caught:
            write_report([file], tmp_path / 'page')
        assert '\n' not in str(caught.value)
        file.unlink()
