"""``ttl finetune`` and ``ttl predict`` end to end at tiny size, interrupted too."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.helpers.checkpoints import assert_bit_equal, random_network
from tests.helpers.images import make_folder
from tests.helpers.toy_run import SignalHook
from ttl_mm.checkpoint.load import load_backbone_state, tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.cli import main
from ttl_mm.config import read_config
from ttl_mm.engine.runner import processes
from ttl_mm.engine.runner.launch import train
from ttl_mm.explore.comparison import Interval
from ttl_mm.tasks.classification import train as job
from ttl_mm.tasks.classification.job import verdict

SMALL = ['--size', '32', '--epochs', '3', '--workers', '0']


@pytest.fixture(scope='module')
def labeled(tmp_path_factory):
    """Three gray levels, 10 images each: 24 to learn from, 6 to test on."""
    return make_folder(tmp_path_factory.mktemp('data') / 'insects', count=10)


@pytest.fixture(scope='module')
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp('weights') / 'backbone.pth'
    torch.save({'state_dict': random_network(0).state_dict()}, path)
    return path


@pytest.fixture(scope='module')
def line(labeled, weights, tmp_path_factory):
    out = tmp_path_factory.mktemp('jobs') / 'first'
    return ['finetune', str(labeled), '--weights', str(weights), *SMALL, '--out', str(out)]


@pytest.fixture(scope='module')
def finished(line, forked, tmp_path_factory):
    """The folder of a finished job with its baseline."""
    assert main(line) == 0
    return tmp_path_factory.getbasetemp() / line[-1]


def test_a_labeled_folder_becomes_a_classifier_a_table_and_a_page(finished, labeled):
    page = (finished / 'page/index.html').read_text()
    for words in ('Accuracy', 'Confusions', 'pre-trained', 'random', 'difference'):
        assert words in page
    figures = json.loads((finished / 'figures.json').read_text())
    assert figures.keys() == {'pre-trained', 'random', 'difference'}
    rows = list(csv.DictReader((finished / 'predictions.csv').read_text().splitlines()))
    assert len(rows) == 6
    right = np.mean([row['label'] == row['true'] == row['path'].split('/')[0] for row in rows])
    assert figures['pre-trained']['mean'] == pytest.approx(100 * right)
    lists = {
        name: set((finished / f'runs/random_seed0/plan/{name}.txt').read_text().splitlines())
        for name in ('train', 'val', 'test')
    }
    assert [len(names) for names in lists.values()] == [18, 6, 6]
    assert len(set.union(*lists.values())) == 30  # no image is in two of them
    assert not list(finished.glob('runs/*/epoch_*.pth'))  # only the classifiers are kept


def test_both_starts_have_the_same_budget_and_only_one_the_weights(finished, weights):
    configs = [
        read_config(finished / f'runs/{start}_seed0/plan/config.py').to_dict()
        for start in ('pre-trained', 'random')
    ]
    assert configs[0]['model']['backbone'].pop('init_cfg')['checkpoint'] == str(weights)
    for config in configs:
        for name in ('train', 'val', 'test'):  # lists with the same names, in their own folders
            path = config[f'{name}_dataloader']['dataset'].pop('list_file')
            config[f'{name}_dataloader']['names'] = Path(path).read_text()
    assert configs[0] == configs[1]


def test_the_same_line_again_trains_nothing_and_another_is_refused(finished, line, capsys):
    results = list(finished.glob('runs/*/result.json'))
    before = [path.stat().st_mtime_ns for path in results]
    assert main(line) == 0
    assert [path.stat().st_mtime_ns for path in results] == before
    assert 'Run ' not in capsys.readouterr().out
    assert main([*line, '--rate', '0.1']) == 2
    assert 'holds a job with rate left open, and this line asks for 0.1' in capsys.readouterr().err


def test_an_interrupted_job_is_continued_by_the_same_line(finished, line, tmp_path, capsys):
    out = tmp_path / 'second'
    line = [*line[:-1], str(out), '--no-baseline']
    stop = {'+custom_hooks': [{'type': SignalHook.__name__, 'at': 1}]}

    def train_and_stop(config, work_dir, **options):
        train(config, work_dir, cfg_options=stop, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, 'train', train_and_stop)
        assert main(line) == 75
    assert 'is not finished. The same line continues it.' in capsys.readouterr().err
    assert not (out / 'classifier.pth').exists()
    assert main(line) == 0
    found, whole = (
        tensors_of(read_checkpoint(folder / 'runs/pre-trained_seed0/classifier.pth'))
        for folder in (out, finished)
    )
    assert_bit_equal(found, whole)
    assert 'difference' not in capsys.readouterr().out


def test_predictions_are_those_of_the_test_and_unreadable_images_are_named(
    finished, labeled, tmp_path, capsys
):
    (tmp_path / 'images').mkdir()
    (tmp_path / 'images/broken.png').write_bytes(b'<html>')
    out = tmp_path / 'all.csv'
    line = ['predict', str(labeled), str(tmp_path / 'images'), '--out', str(out)]
    line += ['--weights', str(finished / 'classifier.pth'), '--workers', '0']
    assert main(line) == 0
    assert 'left out 1 image that cannot be read: ' in capsys.readouterr().out
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 30
    assert all(1 / 3 <= float(row['confidence']) <= 1 for row in rows)
    predicted = {tuple(row['path'].split('/')[-2:]): row['label'] for row in rows}
    for row in csv.DictReader((finished / 'predictions.csv').read_text().splitlines()):
        assert predicted[tuple(row['path'].split('/'))] == row['label']
    assert main(line) == 2
    assert 'exists: name another file with --out' in capsys.readouterr().err


def test_a_frozen_backbone_stays_as_it_was_and_the_head_learns(forked, labeled, weights, tmp_path):
    line = ['finetune', str(labeled), '--weights', str(weights), *SMALL, '--frozen']
    line += ['--no-baseline', '--per-class', '5', '--out', str(tmp_path / 'job')]
    assert main(line) == 0
    path = tmp_path / 'job/classifier.pth'
    assert_bit_equal(load_backbone_state(path), load_backbone_state(weights))
    bias = tensors_of(read_checkpoint(path))['head.fc.bias']
    assert (len(bias), bool(bias.any())) == (3, True)  # it began with zeros
    names = (tmp_path / 'job/runs/pre-trained_seed0/plan/train.txt').read_text().splitlines()
    assert len(names) == 12  # of the 15 a fifth is for validation


def test_config_out_writes_the_config_that_would_be_trained(finished, line, tmp_path, capsys):
    path = tmp_path / 'mine.py'
    asked = [*line[:-2], '--config-out', str(path)]
    assert main(asked) == 0
    assert f'Start: python tools/train.py {path}' in capsys.readouterr().out
    mine = path.read_text().replace(str(tmp_path / 'mine_lists'), 'PLAN')
    plan = finished / 'runs/pre-trained_seed0/plan'
    theirs = (plan / 'config.py').read_text().replace(str(plan), 'PLAN')
    assert mine.split('\n', 1)[1] == theirs.split('\n', 1)[1]
    assert main(asked) == 2
    assert 'exists: name another file with --config-out' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('ahead', 'words'),
    [
        (Interval(5, 1, 9), 'Pre-training helps: +5.0 points (+1.0 to +9.0)'),
        (Interval(-5, -9, -1), 'Pre-training harms: -5.0 points'),
        (Interval(1, -1, 3), 'No difference to random weights'),
        (None, ''),
    ],
)
def test_the_verdict_follows_the_interval(ahead, words):
    assert verdict(ahead).startswith(words)


def test_a_job_is_not_continued_on_other_images(labeled, weights, tmp_path, monkeypatch, capsys):
    copy = shutil.copytree(labeled, tmp_path / 'copy')
    line = ['finetune', str(copy), '--weights', str(weights), *SMALL, '--out', str(tmp_path / 'x')]
    monkeypatch.setattr(job, 'train_in_processes', lambda config, out: 75)
    assert main(line) == 75
    shutil.copyfile(copy / 'ant/0.png', copy / 'ant/new.png')
    assert main(line) == 2
    assert 'holds a job with images ' in capsys.readouterr().err
