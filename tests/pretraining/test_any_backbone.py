"""The whole way of networks of each library: train, resume, features, export, reload."""

import pytest
import timm
import torch
import torchvision

import ttl_mm
from tests.helpers.checkpoints import assert_bit_equal
from tests.helpers.images import make_folder
from tests.helpers.tiny_networks import NETWORKS, register_tiny
from tests.helpers.toy_run import STOP, assert_same_run, log_file, run, write_config
from ttl_mm.checkpoint.sealed import newest_valid
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.evaluation.model import load_model
from ttl_mm.export import export_backbone
from ttl_mm.models.adapted_backbone import network_facts
from ttl_mm.models.libraries import build_network

MODEL = """dict(
    type='ttl_mm.TTLAlgorithm', target_momentum=0.9, online_sizes=(32, 64), target_sizes=None,
    backbone={backbone!r},
    neck=dict(type='NonLinearNeck', in_channels=32, hid_channels=8, out_channels=8),
    head=dict(type='ttl_mm.TruncatedTripletHead', predictor=None, deputy=(1, 2)))"""
VIEWS = """[
    dict(type='ttl_mm.RandomViews', views=[dict(size={size}), dict(size={size})]),
    dict(type='PackInputs'),
]"""
TARGET = """
default_hooks['target_update'] = dict(type='ttl_mm.TargetUpdateHook', horizon_iters=2)
"""


@pytest.fixture(scope='module', autouse=True)
def tiny():
    with pytest.MonkeyPatch.context() as patch:
        register_tiny(patch)
        yield
    network_facts.cache_clear()


@pytest.fixture(scope='module')
def photos(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp('data') / 'photos', count=8)


def two_steps(folder, photos, backbone, size):
    """The configs of a run of two steps, and of one that is stopped after the first."""
    shared = {
        'images': photos, 'loop': "dict(type='IterBasedTrainLoop', max_iters=2)",
        'pipeline': VIEWS.format(size=size), 'model': MODEL.format(backbone=backbone),
    }  # fmt: skip
    return [
        write_config(folder / f'{name}.py', more=TARGET + more, **shared)
        for name, more in (('whole', ''), ('halves', STOP.format(1)))
    ]


def backbone_of(name, size):
    """The value of ``model.backbone``: the name alone, but for networks built for one size."""
    if name != 'torchvision/tiny_vit':
        return name
    return {'type': 'ttl_mm.AdaptedBackbone', 'network': name, 'size': size}


QUICK = ('timm/test_resnet', 'timm/test_vit', 'torchvision/tiny_vit')


@pytest.mark.parametrize(
    'name', [n if n in QUICK else pytest.param(n, marks=pytest.mark.faults) for n in NETWORKS]
)
def test_two_steps_resume_features_export_and_reload(name, photos, tmp_path):
    size = NETWORKS[name]
    network_facts(name, size if name == 'torchvision/tiny_vit' else None)  # once for all forks
    whole, halves = two_steps(tmp_path, photos, backbone_of(name, size), size)
    assert run(whole, tmp_path / 'a') == [0], log_file(tmp_path / 'a').read_text()[-2000:]
    assert run(halves, tmp_path / 'b') == [75]
    assert run(whole, tmp_path / 'b') == [0]
    assert_same_run(tmp_path / 'b', tmp_path / 'a')
    checkpoint, _ = newest_valid(tmp_path / 'a')
    backbone, _, about = load_model(str(checkpoint), device='cpu')
    assert about['architecture'] == name
    images = torch.randn(2, 3, *[backbone.facts.size] * 2)
    with torch.no_grad():
        features = backbone(images)[0]
    assert features.shape == (2, backbone.facts.width, 1, 1)
    library, _, own = name.partition('/')
    exported = export_backbone(checkpoint, library)
    content = torch.load(exported, weights_only=True)
    reloaded = their_network(library, own, content, size)
    with torch.no_grad():
        theirs = reloaded(images)
    theirs = theirs[-1] if isinstance(theirs, tuple) else theirs
    theirs = theirs.mean((2, 3)) if theirs.ndim == 4 else theirs
    torch.testing.assert_close(theirs, features.flatten(1), atol=1e-5, rtol=1e-5)
    for to in ('plain', 'safetensors'):
        path = export_backbone(checkpoint, to)
        again, _, about = load_model(str(path), device='cpu')  # the name is in the file
        assert about['architecture'] == name
        assert_bit_equal(again.state_dict(), backbone.state_dict())


def their_network(library, name, content, size):
    """The network as a user of the library would load it, strictly."""
    if library == 'timm':
        network = timm.create_model(name, num_classes=0)
        network.load_state_dict(content, strict=True)
    elif library == 'torchvision':
        options = {'image_size': size} if name == 'tiny_vit' else {}
        network = torchvision.models.get_model(name, **options)
        head = {'resnet18': 'fc', 'tiny_vit': 'heads.head', 'tiny_convnext': 'classifier.2'}[name]
        parent, _, child = head.rpartition('.')
        setattr(network.get_submodule(parent), child, torch.nn.Identity())
        network.load_state_dict(content, strict=True)
    else:
        network = build_network(f'mmpretrain/{name}').network
        state = {n.removeprefix('backbone.'): t for n, t in content['state_dict'].items()}
        network.load_state_dict(state, strict=True)
    network.eval()
    return network


def test_the_command_plans_trains_and_leaves_a_file_that_names_its_network(
    photos, forked, tmp_path, capsys
):
    out = tmp_path / 'run'
    line = ['train', str(photos), '--epochs', '1', '--out', str(out)]
    vit = [*line, '--backbone', 'torchvision/tiny_vit']
    assert main([*vit, '--size', '40']) == 2
    assert '--size 40 does not fit torchvision/tiny_vit' in capsys.readouterr().err
    torch.save(timm.create_model('test_vit').state_dict(), tmp_path / 'other.pth')
    assert main([*vit, '--size', '32', '--init', str(tmp_path / 'other.pth')]) == 2
    assert 'Give weights of a torchvision/tiny_vit' in capsys.readouterr().err
    assert main([*vit, '--size', '32', '--export', 'torchvision']) == 0
    printed = capsys.readouterr().out
    assert 'torchvision.models.get_model(' in printed
    _, _, about = load_model(str(out / 'backbone.pth'), device='cpu')
    assert about['architecture'] == 'torchvision/tiny_vit'
    assert about['trained_size'] == 32
    evaluated = ['eval', str(out / 'backbone.pth'), '--data', str(photos), '--knn']
    assert main([*evaluated, '--neighbors', '1', '--out', str(tmp_path / 'eval')]) == 0


def test_a_module_is_refused_where_a_name_is_needed(photos):
    with pytest.raises(UserError, match=r'backbone=Identity\(...\): .* by its name alone'):
        ttl_mm.pretrain(photos, backbone=torch.nn.Identity())
