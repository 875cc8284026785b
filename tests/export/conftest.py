import pytest
import torch

from tests.helpers.checkpoints import below, make_resnet, other_values


@pytest.fixture(scope='package')
def nets():
    """ResNets by depth, and narrow ones for what is the same at any width."""
    narrow = {'stem_channels': 16, 'base_channels': 16}
    usual = {depth: make_resnet(depth) for depth in (18, 50)}
    return {**usual, **{f'narrow_{depth}': make_resnet(depth, **narrow) for depth in usual}}


@pytest.fixture(scope='package')
def checkpoints(nets, tmp_path_factory):
    """A checkpoint of ours for each: online and target network, neck, optimizer."""
    folder = tmp_path_factory.mktemp('checkpoints')
    for name, net in nets.items():
        state = net.state_dict()
        networks = {**below('backbone.', state), 'neck.fc0.weight': torch.zeros(2, 2)}
        if name == 18:
            networks |= below('target_backbone.', other_values(state))
        torch.save({'state_dict': networks, 'optimizer': {}}, folder / f'r{name}.pth')
    return folder
