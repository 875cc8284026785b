import copy

import pytest
import torch
from mmpretrain.models import ResNet

from ttl_mm.checkpoint.coverage import compare, count_equal, load_state
from ttl_mm.errors import UserError


def make(depth=18):
    return ResNet(depth)


@pytest.fixture(scope='module')
def state():
    torch.manual_seed(0)
    return make().state_dict()


def test_coverage_is_the_share_of_the_models_tensors():
    model = {'a': torch.zeros(2), 'b': torch.zeros(3), 'bn.num_batches_tracked': torch.tensor(0)}
    file = {'a': torch.zeros(2), 'b': torch.zeros(4), 'c': torch.zeros(1)}
    found = compare(model, file)
    assert found.coverage == 1 / 2  # `b` has another shape, `c` is not of the model
    assert (found.matched, found.missing, found.unknown) == ({'a'}, [], ['c'])
    assert found.reshaped == ['b (4,) instead of (3,)']


def test_a_tensor_too_many_is_refused_where_all_must_match(state):
    with pytest.raises(UserError, match=r'1 unknown to the model \(layer5\.weight\)'):
        load_state(make(), {**state, 'layer5.weight': torch.zeros(1)}, 'a file')


def test_equal_tensors_are_counted(state):
    model = make()
    model.load_state_dict(state)
    assert count_equal(model, state) == (100, 100)
    model.layer1[0].conv1.weight.data[0] += 1
    assert count_equal(model, state) == (99, 100)


def test_other_depth_is_named_and_refused():
    nets = {depth: make(depth) for depth in (18, 34, 50)}
    for wanted, given in ((50, 18), (18, 50), (18, 34)):
        net = nets[wanted]
        before = copy.deepcopy(net.state_dict())
        with pytest.raises(UserError, match=rf'is a ResNet-{given}, the model a ResNet-{wanted}'):
            load_state(net, nets[given].state_dict(), 'a file')
        assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_the_comparison_is_a_line_for_the_log(state):
    partial = {n: t for n, t in state.items() if not n.startswith('layer3.1.conv2')}
    assert str(load_state(make(), partial, 'x.pth', min_coverage=0.9)) == (
        '99 of the 100 tensors of the model are in x.pth; 1 missing in the file '
        '(layer3.1.conv2.weight)'
    )
    assert str(load_state(make(), state, 'x.pth')) == (
        '100 of the 100 tensors of the model are in x.pth'
    )


def test_missing_layer_is_named_and_refused(state):
    partial = {n: t for n, t in state.items() if not n.startswith('layer3.1.conv2')}
    with pytest.raises(UserError, match=r'1 missing in the file \(layer3\.1\.conv2\.weight\)'):
        load_state(make(), partial, 'a file')
    assert load_state(make(), partial, 'a file', min_coverage=0.9).coverage == 99 / 100


def test_other_shape_is_named(state):
    wrong = {**state, 'conv1.weight': torch.zeros(64, 3, 3, 3)}
    with pytest.raises(UserError, match=r'conv1\.weight \(64, 3, 3, 3\) instead of'):
        load_state(make(), wrong, 'a file')


def test_files_without_batch_counters_load(state):
    old = {n: t for n, t in state.items() if not n.endswith('num_batches_tracked')}
    assert load_state(make(), old, 'a file').coverage == 1


def test_half_precision_loads_into_single(state):
    half = {n: t.half() if t.is_floating_point() else t for n, t in state.items()}
    net = make()
    load_state(net, half, 'a file')
    assert net.conv1.weight.dtype == torch.float32
    assert torch.equal(net.conv1.weight, half['conv1.weight'].float())
