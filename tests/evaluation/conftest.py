import pytest
import torch

from tests.helpers.checkpoints import random_network
from tests.helpers.images import make_folder


@pytest.fixture(scope='session')
def folder(tmp_path_factory):
    """Two splits of three classes."""
    root = tmp_path_factory.mktemp('data')
    make_folder(root / 'train', count=6)
    make_folder(root / 'val', count=3, seed=1)
    return root


@pytest.fixture(scope='session')
def network():
    """A narrow ResNet whose BatchNorm statistics are not the initial ones."""
    return random_network(0)


@pytest.fixture(scope='session')
def checkpoint(network, tmp_path_factory):
    """A checkpoint in the layout of a pre-training run."""
    path = tmp_path_factory.mktemp('checkpoint') / 'epoch_1.pth'
    state = {f'backbone.{name}': tensor for name, tensor in network.state_dict().items()}
    torch.save({'state_dict': {**state, 'neck.fc0.weight': torch.zeros(2, 2)}}, path)
    return path
