from copy import deepcopy

import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmengine.registry import init_default_scope
from torch import nn

from tests.helpers.tiny_networks import Tokens
from ttl_mm.errors import UserError
from ttl_mm.models import AdaptedBackbone, TruncatedTripletHead, TTLAlgorithm, algorithm
from ttl_mm.models.algorithm import draw_sizes, rescale
from ttl_mm.models.losses import coding_rate, plain_truncated_triplet_loss
from ttl_mm.models.view_sizes import ViewSizes


class Encoder(nn.Module):
    """Sees size and content of its images, and has parameters and buffers."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.bn = nn.BatchNorm2d(6)
        self.sizes = []

    def forward(self, x):
        self.sizes.append(x.shape[-1])
        return (self.bn(self.conv(x)).relu(),)


class Projector(nn.Module):
    def __init__(self, pool=True):
        super().__init__()
        self.pool = pool
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        x = x[0].mean(dim=(2, 3)) if self.pool else x[0]
        return (self.fc(x),)


def build(**options):
    torch.manual_seed(0)
    head = TruncatedTripletHead(Projector(pool=False), deputy=3)
    options = {'online_sizes': None, 'target_sizes': None, **options}
    model = TTLAlgorithm(Encoder(), Projector(), head, **options)
    nn.init.normal_(model.target_neck.fc.weight)  # as after some training
    return model


def direction(model, projection, target):
    return model.head.compare(model.head.predict(projection), target)


def views(*sizes, images=12):
    return [torch.randn(images, 3, size, size) for size in sizes]


def test_loss_is_the_mean_over_sources_summed_over_targets():
    for crops in (views(16, 16), views(16, 16, 8, 8, 6)):  # two views: the sum of both directions
        model = build()
        alone = deepcopy(model)

        def project(images, alone=alone):
            return alone.neck(alone.backbone(images))[0]

        sources = [project(x) for x in crops[:2]]
        if len(crops) > 2:
            sources += [*project(torch.cat(crops[2:4])).chunk(2), project(crops[4])]
        targets = [alone.target_neck(alone.target_backbone(x))[0] for x in crops[:2]]
        pairs = [(s, t) for t in (0, 1) for s in range(len(crops)) if s != t]
        losses = [direction(alone, sources[s], targets[t]) for s, t in pairs]
        expected = 2 * sum(losses) / len(losses)
        torch.testing.assert_close(model.loss(crops)['loss'], expected)
        assert model.target_backbone.sizes == [16, 16]


def without_target(**head):
    torch.manual_seed(0)
    head = TruncatedTripletHead(None, deputy=(1, 5), gamma=1.0, **head)
    options = dict(target_momentum=None, online_sizes=None, target_sizes=None)
    return TTLAlgorithm(Encoder(), Projector(), head, **options)


def test_without_a_target_network_the_gradient_goes_through_both_sides():
    """Against the plain loss of the two views' projections, with everything in one graph."""
    for head in ({}, dict(both_views=True, deputy_temperature=0.1)):
        model, inputs = without_target(**head), views(8, 8)
        alone = deepcopy(model)
        assert {name.split('.')[0] for name in model.state_dict()} == {'backbone', 'neck'}
        first, second = (alone.neck(alone.backbone(x))[0] for x in inputs)
        expected = 0.0
        for query, key in ((first, second), (second, first)):
            keys = torch.cat([key, query]) if head else key
            options = dict(views=2, temperature=0.1) if head else {}
            expected = expected + 2 * plain_truncated_triplet_loss(
                query, keys, (1, 5), gamma=1.0, key_gradient=True, **options
            )
        expected.backward()
        for _ in range(2):  # nothing has to be updated between two passes
            loss = model.loss(list(inputs))['loss']
        loss.backward()
        torch.testing.assert_close(loss, expected)
        for found, wanted in zip(model.parameters(), alone.parameters()):
            torch.testing.assert_close(found.grad, wanted.grad)
    model.eval().init_weights()
    torch.testing.assert_close(model.project_target(inputs[0]), model.project(inputs)[0])


def test_the_coding_rate_of_the_large_views_is_subtracted():
    inputs = views(16, 16, 8)
    plain, rated = without_target(), without_target(coding_rate=0.5)
    room = sum(coding_rate(z) for z in plain.project(list(inputs))[:2])
    expected = plain.loss(list(inputs))['loss'] - 0.5 * room
    torch.testing.assert_close(rated.loss(list(inputs))['loss'], expected)


def test_small_crops_without_a_target_network():
    model, inputs = without_target(both_views=True), views(16, 16, 8, 8)
    alone = deepcopy(model)
    sources = alone.project(inputs)
    pairs = [(s, t) for t in (0, 1) for s in range(4) if s != t]
    losses = [alone.head.compare(sources[s], sources[t], sources[1 - t]) for s, t in pairs]
    torch.testing.assert_close(model.loss(inputs)['loss'], 2 * sum(losses) / 6)


def test_gradient_trains_the_online_network_and_the_update_moves_the_target():
    model = build()
    model.loss(views(8, 8))['loss'].backward()
    for name, parameter in model.named_parameters():
        trained = name.split('.')[0] in ('backbone', 'neck', 'head')
        assert (parameter.grad is not None, parameter.requires_grad) == (trained, trained), name
    online = dict(model.neck.named_parameters())
    before = deepcopy(model.target_neck.state_dict())
    statistics = model.target_backbone.bn.running_mean.clone()
    model.update_target(0.9)
    for name, value in model.target_neck.named_parameters():
        torch.testing.assert_close(value, 0.9 * before[name] + 0.1 * online[name])
    assert torch.equal(model.target_backbone.bn.running_mean, statistics)


def test_the_initialized_target_equals_the_online_network_and_nothing_is_printed(capsys):
    init_default_scope('mmpretrain')
    neck = dict(type='NonLinearNeck', hid_channels=8, out_channels=8, norm_cfg=dict(type='BN1d'))
    predictor = dict(neck, in_channels=8, with_avg_pool=False)
    model = TTLAlgorithm(
        ConfigDict(type='ResNet_CIFAR', depth=18, base_channels=4, stem_channels=4),
        ConfigDict(neck, in_channels=32),
        ConfigDict(type='ttl_mm.TruncatedTripletHead', predictor=predictor),
    )
    model.init_weights()
    model.head.init_weights()
    assert capsys.readouterr() == ('', '')  # mmengine would have three lines about each tensor
    state = model.state_dict()
    copied = [name for name in state if name.startswith('target_')]
    assert len(copied) > 50
    for name in copied:
        assert torch.equal(state[name], state[name.removeprefix('target_')])
        assert state[name].data_ptr() != state[name.removeprefix('target_')].data_ptr()
    parts = {key.split('.')[0] for key in state}  # the keys of a checkpoint
    assert parts == {'backbone', 'neck', 'head', 'target_backbone', 'target_neck'}


def test_draws_fill_their_ranges_and_depend_on_seed_and_iteration_alone():
    draws = [draw_sizes(0, i, [(96, 224), (128, 224)]) for i in range(4000)]
    online, target = (set(sizes) for sizes in zip(*draws))
    assert online == set(range(96, 225))
    assert target == set(range(128, 225))
    laws = [(96, 224)] * 4
    torch.manual_seed(1)
    first = draw_sizes(3, 17, laws)
    torch.manual_seed(2)
    assert draw_sizes(3, 17, laws) == first
    assert draw_sizes(3, 18, laws) != first
    assert draw_sizes(4, 17, laws) != first
    assert len(set(first)) > 1  # four draws, not one


def test_each_view_of_each_network_has_its_size():
    """Online 1, online 2, target 2, target 1 in the order of the draws; small crops stay."""
    model = build(online_sizes=(4, 30), target_sizes=(8, 30))
    model.set_progress(seed=5, iteration=7)
    drawn = draw_sizes(5, 7, [(4, 30), (4, 30), (8, 30), (8, 30)])
    model.loss(views(16, 16, 6))
    assert model.backbone.sizes == [drawn[0], drawn[1], 6]
    assert model.target_backbone.sizes == [drawn[3], drawn[2]]
    image = torch.tensor([[0.0, 1.0], [2.0, 3.0]])[None, None]
    row = torch.tensor([0.0, 0.25, 0.75, 1.0])
    torch.testing.assert_close(rescale(image, 4)[0, 0], row + 2 * row[:, None])
    assert rescale(image, None) is image
    sizes = Config(dict(sizes=[4, 6])).sizes
    model = build(online_sizes=sizes)
    assert 4 <= model.view_sizes()['online'][0] <= 6


def adapted(**options):
    """A model on patches of 8 pixels, and what it logged."""
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(algorithm, 'print_log', lambda text, logger: said.append(text))
        backbone = AdaptedBackbone(Tokens(), size=32)
        backbone.facts = backbone.facts._replace(**options)
        head = TruncatedTripletHead(None, deputy=3)
        sizes = {'online_sizes': (20, 60), 'target_sizes': (30, 60)}
        return TTLAlgorithm(backbone, nn.Flatten(), head, **sizes), said


def test_random_sizes_are_rounded_to_the_patch_of_the_network():
    model, said = adapted()
    found = set()
    for iteration in range(20):
        model.set_progress(seed=0, iteration=iteration)
        found |= {size for sizes in model.view_sizes().values() for size in sizes}
    assert found <= set(range(16, 65, 8))
    assert len(found) > 3
    assert not said


def test_a_network_of_one_size_has_no_random_rescale_and_says_so_once():
    model, said = adapted(sizes=ViewSizes(32, only=32))
    assert model.view_sizes() == {'online': [None, None], 'target': [None, None]}
    assert said == ['No random rescale: Tokens takes 32 pixels only.']


def test_invalid_settings_are_refused_at_build_and_one_view_in_training():
    for options, found in (
        ({'target_momentum': 1.5}, r'target_momentum=1\.5'),
        ({'base_momentum': 0.9}, r'base_momentum=0\.9: write target_momentum'),
        ({'pretrained': 'a.pth'}, r"pretrained='a\.pth': write init_cfg=dict\("),
        ({'online_sizes': (224, 96)}, r'online_sizes=\(224, 96\)'),
        ({'target_sizes': (0, 96)}, r'target_sizes=\(0, 96\)'),
        ({'target_momentum': None, 'target_sizes': (8, 9)}, r'target_sizes=\(8, 9\): without a'),
    ):
        with pytest.raises(UserError, match=found):
            build(**options)
    with pytest.raises(UserError, match='1 view of'):
        build().loss(views(8))


def test_a_second_pass_that_trains_without_an_update_is_refused():
    model = build()
    inputs = views(8, 8)
    model.loss(list(inputs))
    with pytest.raises(UserError, match=r'TargetUpdateHook.*\n.*model\.update_target'):
        model.loss(list(inputs))
    model.update_target(0.99)
    model.loss(list(inputs))
    model.set_progress(seed=0, iteration=2)  # accumulation: a pass without an optimizer step
    model.loss(list(inputs))
    model = build()
    for _ in range(2):  # passes that do not train
        with torch.no_grad():
            model.train().loss(views(8, 8))
        model.eval().loss(views(8, 8))
    model.train().loss(views(8, 8))
    model.eval().loss(views(8, 8))
    with pytest.raises(UserError, match='never move'):
        model.train().loss(views(8, 8))


def test_own_modules_memory_format_and_features():
    model, inputs = build(), views(16, 16, 8, 8)
    own = deepcopy(model)
    for name in ('backbone', 'neck', 'target_backbone', 'target_neck', 'head.predictor'):
        own.get_submodule(name).register_forward_hook(lambda module, args, output: output[0])
    expected = model.loss(list(inputs))['loss']
    torch.testing.assert_close(own.loss(list(inputs))['loss'], expected)
    losses = []
    for flag in (True, False):
        model = build(channels_last=flag)
        batch = model.data_preprocessor({'inputs': list(inputs), 'data_samples': None}, True)
        layouts = [x.is_contiguous(memory_format=torch.channels_last) for x in batch['inputs']]
        assert layouts == [flag] * len(inputs)  # before the loss, whose caller keeps the batch
        losses.append(model.loss(batch['inputs'])['loss'])
    torch.testing.assert_close(*losses)
    model, image = build().eval(), inputs[0]  # features are those of the online backbone
    torch.testing.assert_close(model(image)[0], model.backbone(image)[0])
