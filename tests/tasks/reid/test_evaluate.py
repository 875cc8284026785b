"""``ttl reid eval`` and the function behind it."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmpretrain.models import ResNet
from PIL import Image
from torch.multiprocessing import start_processes

from tests.helpers.checkpoints import below
from tests.helpers.toy_run import free_port
from ttl_mm.cli import main
from ttl_mm.datasets.name_list import write_name_list
from ttl_mm.evaluation.feature_file import read_features
from ttl_mm.tasks.reid.evaluate import describe, evaluate_reid
from ttl_mm.tasks.reid.synthetic import make_split


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
    torch.manual_seed(0)
    state = ResNet(18, base_channels=8, stem_channels=8).state_dict()
    path = tmp_path_factory.mktemp('weights') / 'narrow.pth'
    torch.save({'state_dict': below('backbone.', state)}, path)
    return str(path)


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_split('data', 'market', train_people=2, images_each=1, test_people=4, distractors=8)
    return 'data'


def expected_rank_1(features) -> float:
    """By the names alone: the best image that is not junk, one query after the other."""
    names = [path.rpartition('/')[2] for path in features.paths]
    sides = [path.partition('/')[0] for path in features.paths]
    found = []
    for query in (i for i, side in enumerate(sides) if side == 'query'):
        person, camera = names[query][:4], names[query][4:7]
        gallery = [i for i, side in enumerate(sides) if side == 'bounding_box_test']
        allowed = [i for i in gallery if not names[i].startswith(('-1', person + camera))]
        scores = features.features @ features.features[query]
        found.append(names[max(allowed, key=lambda i: scores[i])].startswith(person))
    return 100 * sum(found) / len(found)


def test_command_line(data, checkpoint, capsys):
    arguments = ['reid', 'eval', checkpoint, '--data', data, '--out', 'out', '--workers', '0']
    assert main([*arguments, '--queries', '1', '3']) == 0
    assert 'bounding_box_test (images: 20, identities: 4' in capsys.readouterr().out
    features = read_features('out/reid.safetensors')
    assert features.features.shape == (24, 64)
    written = Path('out/figures.json').read_text()
    names = [f'{name} (%)' for name in ('rank-1', 'rank-5', 'rank-10', 'mAP', 'mAP-trapezoid')]
    assert [figure['metric'] for figure in json.loads(written)] == names
    figure = json.loads(written)[0]
    assert figure['value'] == expected_rank_1(features)
    assert (figure['queries'], figure['gallery'], figure['flip']) == (4, 20, 'n(f + m)')
    assert {'checkpoint_sha256', 'data_fingerprint', 'measured_with'} < set(figure)
    with Image.open('out/matches.png') as picture:
        assert picture.size[1] > 2 * 160  # two queries

    assert main(['reid', 'eval', 'out/reid.safetensors', '--out', 'again']) == 0
    assert Path('again/figures.json').read_text() == written

    assert main([*arguments, '--queries', '4']) == 2
    assert 'the data has queries 0 to 3' in capsys.readouterr().err


def test_features_need_not_come_from_a_file_of_weights():
    about = {'num_query': 1, 'flip': 'n(f + m)', 'crop': '256 x 128', 'weights': 'ab', 'data': 'cd'}
    features = SimpleNamespace(paths=['query', 'gallery'], about={**about, 'versions': {}})
    (figure,) = describe({'mAP': 50.0, 'valid_queries': 1, 'skipped_queries': 0}, features)
    assert figure.keys().isdisjoint({'checkpoint', 'checkpoint_sha256'})
    assert (figure['metric'], figure['value'], figure['weights_sha256']) == ('mAP (%)', 50.0, 'ab')


def test_the_reference_flip_is_another_protocol(data, checkpoint):
    clean = evaluate_reid(checkpoint, data, 'out')
    features = read_features('out/reid.safetensors').features.copy()
    reference = evaluate_reid(checkpoint, data, 'out', reference_flip=True)
    assert clean[0]['flip'] != reference[0]['flip']
    difference = abs(read_features('out/reid.safetensors').features - features)
    assert 1e-4 < difference.max() < 1


def test_figures_of_others_are_replaced_only_if_asked(data, checkpoint, capsys):
    Path('taken').mkdir()
    figures = Path('taken/figures.json')
    figures.write_text('of somebody else')
    command = ['reid', 'eval', checkpoint, '--data', str(data), '--out', 'taken']
    assert main(command) == 2
    assert 'figures.json, which `ttl reid eval` did not write' in capsys.readouterr().err
    assert figures.read_text() == 'of somebody else'
    assert main([*command, '--overwrite']) == main(command) == 0
    assert figures.read_text() != 'of somebody else'


def test_an_identity_in_both_splits_is_found_before_extraction(tmp_path, checkpoint, capsys, data):
    make_split('sysu')
    write_name_list('sysu/meta/train.txt', ['0000000009/a.jpg'])
    assert main(['reid', 'eval', checkpoint, '--data', 'sysu', '--out', 'out']) == 2
    assert 'identity in both training and test images: 9' in capsys.readouterr().out
    assert not (tmp_path / 'out').exists()


def run_rank(rank, arguments, port):
    """What torchrun starts: ``main`` in a process that finds its group in the environment."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE='2')
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port))
    assert main(arguments) == 0


def test_processes_of_torchrun_share_the_extraction(data, checkpoint):
    arguments = ['reid', 'eval', checkpoint, '--data', data, '--batch-size', '5', '--workers', '0']
    assert main([*arguments, '--out', 'alone']) == 0
    shared = [*arguments, '--out', 'shared'], free_port()
    start_processes(run_rank, shared, nprocs=2, start_method='fork')
    written = ['.ttl_mm', 'figures.json', 'matches.png', 'reid.safetensors']
    assert sorted(os.listdir('shared')) == written
    for name in ('figures.json', 'reid.safetensors'):
        assert Path('alone', name).read_bytes() == Path('shared', name).read_bytes()
