import copy

import pytest
import torch
from mmpretrain.models import ResNet

from ttl_mm.checkpoint.coverage import compare, count_equal, load_state
from ttl_mm.errors import UserError


@pytest.fixture(scope='module')
def state():
    torch.manual_seed(0)
    return ResNet(18).state_dict()


def test_coverage_is_the_share_of_the_models_tensors():
    model = {'a': torch.zeros(2), 'b': torch.zeros(3), 'bn.num_batches_tracked': torch.tensor(0)}
    file = {'a': torch.zeros(2), 'b': torch.zeros(4), 'c': torch.zeros(1)}
    found = compare(model, file)
    assert found.coverage == 2 / 5  # `b` has another shape, `c` is not of the model
    assert (found.matched, found.missing, found.unknown) == ({'a'}, [], ['c'])
    assert found.reshaped == ['b (4,) instead of (3,)']


def test_what_does_not_match_is_named_and_refused(state):
    conv = 'layer3.1.conv2.weight'
    partial = {name: tensor for name, tensor in state.items() if name != conv}
    for given, message in (
        ({**state, 'layer5.weight': torch.zeros(1)}, r'1 unknown to the model \(layer5\.weight\)'),
        (partial, r'1 missing in the file \(layer3\.1\.conv2\.weight\)'),
        ({**state, conv: torch.zeros(1, 3)}, r'layer3\.1\.conv2\.weight \(1, 3\) instead of'),
    ):
        with pytest.raises(UserError, match=message):
            load_state(ResNet(18), given, 'a file')
    found = load_state(ResNet(18), partial, 'x.pth', min_coverage=0.9)
    values = sum(t.numel() for n, t in state.items() if not n.endswith('tracked'))
    assert found.coverage == 1 - state[conv].numel() / values < 99 / 100
    assert str(found) == (
        '99 of the 100 tensors of the model are in x.pth, 94 % of its values; '
        f'1 missing in the file ({conv})'
    )
    assert str(load_state(ResNet(18), state, 'x.pth')) == (
        '100 of the 100 tensors of the model are in x.pth'
    )
    nets = {depth: ResNet(depth) for depth in (18, 34, 50)}
    for wanted, given in ((50, 18), (18, 50), (18, 34)):
        net = nets[wanted]
        before = copy.deepcopy(net.state_dict())
        with pytest.raises(UserError, match=rf'is a ResNet-{given}, the model a ResNet-{wanted}'):
            load_state(net, nets[given].state_dict(), 'a file')
        assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_equal_tensors_are_counted_and_half_precision_loads_into_single(state):
    model = ResNet(18)
    model.load_state_dict(state)
    assert count_equal(model, state) == (100, 100)
    model.layer1[0].conv1.weight.data[0] += 1
    assert count_equal(model, state) == (99, 100)
    half = {n: t.half() for n, t in state.items() if not n.endswith('num_batches_tracked')}
    net = ResNet(18)
    assert load_state(net, half, 'a file').coverage == 1
    assert net.conv1.weight.dtype == torch.float32
    assert torch.equal(net.conv1.weight, half['conv1.weight'].float())
