import pytest
import torch

from tests.helpers.checkpoints import below, make_resnet, other_values


@pytest.fixture(scope='package')
def nets():
    return {depth: make_resnet(depth) for depth in (18, 50)}


@pytest.fixture(scope='package')
def checkpoints(nets, tmp_path_factory):
    """A checkpoint of ours per depth: online and target network, neck, optimizer."""
    folder = tmp_path_factory.mktemp('checkpoints')
    for depth, net in nets.items():
        state = net.state_dict()
        networks = {**below('backbone.', state), 'neck.fc0.weight': torch.zeros(2, 2)}
        if depth == 18:
            networks |= below('target_backbone.', other_values(state))
        torch.save({'state_dict': networks, 'optimizer': {}}, folder / f'r{depth}.pth')
    return folder
