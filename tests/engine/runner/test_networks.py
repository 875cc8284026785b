"""Compiled networks and recomputed activations: the same loss, gradient and statistics."""

from copy import deepcopy

import pytest
import torch
from mmengine.registry import init_default_scope
from mmpretrain.registry import MODELS as MMPRETRAIN
from torch import nn

import ttl_mm.models  # noqa: F401
from ttl_mm.engine.runner.networks import find_blocks, prepare_networks
from ttl_mm.errors import UserError
from ttl_mm.registry import MODELS

MLP = dict(type='NonLinearNeck', hid_channels=16, out_channels=8, with_last_bn=False)
# dynamo looks at .grad of tensors that have none, and hides torch's warning but not from pytest
quiet = pytest.mark.filterwarnings('ignore:The .grad attribute')
EAGER = dict(backend='aot_eager')  # all of torch.compile but the generated C++


def make_model(**options):
    init_default_scope('mmpretrain')
    torch.manual_seed(0)
    model = MODELS.build(
        dict(
            type='ttl_mm.TTLAlgorithm',
            backbone=dict(
                type='ResNet_CIFAR', depth=18, stem_channels=8, base_channels=8, num_stages=1,
                strides=(1,), dilations=(1,), out_indices=(0,),
            ),
            neck=dict(MLP, in_channels=8),
            head=dict(
                type='ttl_mm.TruncatedTripletHead',
                deputy=2,
                predictor=dict(MLP, in_channels=8, with_avg_pool=False),
            ),
            **{'online_sizes': None, 'target_sizes': None, **options},
        )
    )  # fmt: skip
    with torch.no_grad():  # the last BN of a block starts at 0, and would hide the block
        for block in model.backbone.layer1:
            block.bn2.weight.fill_(0.5)
    model.sync_target()
    return model


def one_step(model, iteration=0):
    """Loss, gradients and BN statistics of a batch."""
    torch.manual_seed(1)
    # Large shapes and colors. Images of noise are all alike to a network that averages over them:
    # BatchNorm then magnifies the rounding, and float32 is 2e-5 off float64 however it is computed.
    shapes = nn.functional.interpolate(torch.randn(16, 3, 3, 3), (12, 12), mode='bilinear')
    views = [shapes + 0.3 * torch.randn(16, 3, 12, 12) for _ in range(2)]
    model.set_progress(seed=0, iteration=iteration)
    loss = model.loss(views)['loss']
    loss.backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), gradients, dict(model.named_buffers())


def assert_same_step(settings, iterations=1, **options):
    plain = make_model(**options)
    other = deepcopy(plain)
    names = list(other.state_dict())
    said = prepare_networks(other, settings)
    assert len(said) == len(settings)
    for iteration in range(iterations):
        expected, found = one_step(plain, iteration), one_step(other, iteration)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert list(other.state_dict()) == names
    return other


def test_recomputed_activations():
    model = assert_same_step({'checkpoint_activations': True})
    # the backward pass runs a block again, and must not count the two views again
    assert model.backbone.layer1[0].bn1.num_batches_tracked == 2


def test_recomputed_activations_are_not_kept():
    """Bytes that autograd holds after the forward pass, without and with."""
    held = []
    for settings in ({}, {'checkpoint_activations': True}):
        model, kept = make_model(), {}
        prepare_networks(model, settings)

        def keep(tensor, kept=kept):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = model.loss([torch.rand(6, 3, 12, 12) for _ in range(2)])
        held.append(sum(kept.values()))
        del loss
    assert held[1] < 0.6 * held[0]


@quiet
def test_compiled_and_both_at_once():
    assert_same_step({'compile': EAGER, 'checkpoint_activations': True})
    # every iteration draws other sizes: the graphs take any
    assert_same_step({'compile': EAGER}, 2, online_sizes=(8, 12), target_sizes=(8, 12))


@quiet
@pytest.mark.faults
def test_a_graph_for_every_size():
    """More sizes than the eight graphs that torch keeps by default."""
    settings = {'compile': dict(EAGER, dynamic=False)}
    assert_same_step(settings, 9, online_sizes=(6, 18), target_sizes=None)


@quiet
@pytest.mark.faults
@pytest.mark.parametrize('recompute', [False, True])
def test_compiled_to_machine_code(recompute):
    """As a user's run: C++ on a CPU, Triton on a GPU."""
    settings = {'compile': True, **({'checkpoint_activations': True} if recompute else {})}
    sizes = dict(online_sizes=(8, 12), target_sizes=(8, 12))
    assert_same_step(settings, 2, **sizes)


def test_blocks_are_found_in_residual_networks_and_transformers():
    def blocks(**backbone):
        model = nn.ModuleDict({'backbone': MMPRETRAIN.build(backbone)})
        return [type(block).__name__ for block in find_blocks(model)]

    init_default_scope('mmpretrain')
    assert blocks(type='ResNet', depth=18) == ['BasicBlock'] * 8
    tiny = dict(arch=dict(embed_dims=8, num_layers=3, num_heads=2, feedforward_channels=8))
    assert blocks(type='VisionTransformer', img_size=32, **tiny) == ['TransformerEncoderLayer'] * 3
    conv = nn.Conv2d(3, 3, 1)
    assert find_blocks(nn.ModuleDict({'backbone': conv})) == [conv]


def test_a_wrong_name_of_a_module_is_refused():
    with pytest.raises(UserError, match='checkpoint_activations'):
        find_blocks(nn.Linear(1, 1), ['encoder'])
