"""``ttl train``, ``embed`` and ``eval`` of an address give what they give of a folder."""

import numpy as np
import pytest
import torch
from mmengine.config import Config

import ttl_mm
from tests.helpers.checkpoints import assert_bit_equal, random_network
from tests.helpers.images import make_folder
from tests.helpers.store import Store
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.cli import main
from ttl_mm.explore.embedding import read_embedding


@pytest.fixture(scope='module')
def sources(tmp_path_factory):
    """Images in a folder, in shards, and in shards of a server."""
    root = tmp_path_factory.mktemp('store')
    photos = make_folder(root / 'photos', count=16)
    words = ['shard', photos, '--out', root / 'served' / 'photos', '--size', '0.02MB']
    assert main(list(map(str, words))) == 0
    with pytest.MonkeyPatch.context() as patch, Store(root / 'served') as store:
        patch.setenv('TTL_STORE_CACHE', str(root / 'cache'))
        shards = root / 'served' / 'photos'
        yield {'folder': str(photos), 'shards': str(shards), 'store': f'{store.url}/photos'}


@pytest.mark.faults
def test_a_network_is_the_same_and_the_config_names_the_address(sources, forked, tmp_path):
    both = {name: sources[name] for name in ('folder', 'store')}
    for name, images in both.items():
        out = tmp_path / name
        ttl_mm.pretrain(images, out, size=32, epochs=2, labels=images, say=lambda text: None)
    folder, store = (load_backbone_state(tmp_path / name / 'backbone.pth') for name in both)
    assert_bit_equal(folder, store)
    config = Config.fromfile(tmp_path / 'store' / 'plan' / 'config.py')
    assert config.train_dataloader.dataset.data_root == sources['store']


def test_the_plan_of_an_address_names_it(sources, forked, tmp_path):
    config = tmp_path / 'config.py'
    words = ['train', sources['store'], '--size', '32', '--epochs', '1', '--config-out', config]
    assert main([*map(str, words), '--backbone', 'timm/test_resnet']) == 0
    assert Config.fromfile(config).train_dataloader.dataset.data_root == sources['store']


def test_features_and_figures_are_the_same(sources, tmp_path, capsys):
    weights = str(tmp_path / 'weights.pth')
    state = {f'backbone.{name}': tensor for name, tensor in random_network(0).state_dict().items()}
    torch.save({'state_dict': state}, weights)
    found, printed = [], []
    for name in ('shards', 'store'):
        images, out = sources[name], tmp_path / f'{name}.safetensors'
        words = ['embed', images, '--weights', weights, '--out', str(out), '--workers', '0']
        assert main([*words, '--size', '32']) == 0
        found.append(read_embedding(out))
        capsys.readouterr()
        words = ['eval', weights, '--data', images, '--out', str(tmp_path / name), '--knn']
        assert main([*words, '--size', '32', '--neighbors', '5', '--workers', '0']) == 0
        printed.append([line for line in capsys.readouterr().out.splitlines() if 'kNN' in line])
    assert np.array_equal(*(one.features for one in found))
    assert found[0].paths == found[1].paths
    assert printed[0] == printed[1]
    assert printed[0]
