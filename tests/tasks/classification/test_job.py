"""``ttl finetune`` and ``ttl predict`` end to end at tiny size, interrupted too."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.checkpoints import assert_bit_equal
from tests.helpers.finetuning import (
    assert_config_out,
    assert_continues,
    assert_keeps_its_images,
    assert_nothing_again,
    plans,
    write_weights,
)
from tests.helpers.images import make_folder
from ttl_mm.checkpoint.load import load_backbone_state, tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.cli import main
from ttl_mm.explore.comparison import Interval
from ttl_mm.tasks.classification.job import verdict

SMALL = ['--size', '32', '--epochs', '3', '--workers', '0']


@pytest.fixture(scope='module')
def labeled(tmp_path_factory):
    """Three gray levels, 10 images each: 24 to learn from, 6 to test on."""
    return make_folder(tmp_path_factory.mktemp('data') / 'insects', count=10)


@pytest.fixture(scope='module')
def weights(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp('weights'))


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
    ours, theirs = plans(finished, weights)
    for config in (ours, theirs):
        for name in ('train', 'val', 'test'):  # lists with the same names, in their own folders
            path = config[f'{name}_dataloader']['dataset'].pop('list_file')
            config[f'{name}_dataloader']['names'] = Path(path).read_text()
        del config['default_hooks']['linear_start']['dataset']['list_file']
    assert ours == theirs


def test_the_same_line_again_trains_nothing_and_another_is_refused(finished, line, capsys):
    assert_nothing_again(line, capsys)


def test_an_interrupted_job_is_continued_by_the_same_line(finished, line, tmp_path, capsys):
    printed = assert_continues(line, tmp_path / 'second', 1, 'classifier.pth', capsys)
    assert 'difference' not in printed


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
    assert_config_out(line, tmp_path / 'mine.py', capsys)


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


def test_a_job_is_not_continued_on_other_images(labeled, weights, tmp_path, capsys):
    copy = shutil.copytree(labeled, tmp_path / 'copy')
    line = ['finetune', str(copy), '--weights', str(weights), *SMALL, '--out', str(tmp_path / 'x')]
    one_more = copy / 'ant/0.png', copy / 'ant/new.png'
    assert_keeps_its_images(line, lambda: shutil.copyfile(*one_more), capsys)
