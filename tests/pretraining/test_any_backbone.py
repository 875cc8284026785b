"""The whole way of networks of each library: train, resume, features, export, reload."""

import json
import os
import subprocess
import sys
from copy import deepcopy

import mmpretrain
import onnxruntime
import pytest
import timm
import torch
import torchvision
from mmengine.config import Config
from mmengine.registry import DefaultScope

import ttl_mm
from tests.helpers.checkpoints import assert_bit_equal
from tests.helpers.images import make_folder
from tests.helpers.paths import ROOT
from tests.helpers.tiny_networks import NETWORKS, OF_THE_ZOO, Tokens, register_tiny
from tests.helpers.toy_run import STOP, assert_same_run, log_file, run, write_config
from ttl_mm.checkpoint.sealed import newest_valid
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.evaluation.model import load_model
from ttl_mm.evaluation.run import evaluate_checkpoint
from ttl_mm.export import FORMATS, export_backbone
from ttl_mm.models import libraries
from ttl_mm.models.adapted_backbone import network_facts
from ttl_mm.models.libraries import give_module
from ttl_mm.report import load_run

MODEL = """dict(
    type='ttl_mm.TTLAlgorithm', target_momentum=0.9, online_sizes=(32, 64), target_sizes=None,
    backbone={backbone!r},
    neck=dict(type='NonLinearNeck', in_channels=32, hid_channels=8, out_channels=8),
    head=dict(type='ttl_mm.TruncatedTripletHead', predictor=None, deputy=(1, 2)),
    data_preprocessor=dict(
        type='SelfSupDataPreprocessor', mean=(127.5,) * 3, std=(127.5,) * 3, to_rgb=True))"""
VIEWS = """[
    dict(type='ttl_mm.RandomViews', views=[dict(size={size}), dict(size={size})]),
    dict(type='PackInputs'),
]"""
TARGET = """
default_hooks['target_update'] = dict(type='ttl_mm.TargetUpdateHook', horizon_iters=2)
"""


SIZE = 32  # of the views


@pytest.fixture(scope='module', autouse=True)
def tiny(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        register_tiny(patch, tmp_path_factory.mktemp('configs'))
        yield
    network_facts.cache_clear()


@pytest.fixture(scope='module')
def photos(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp('data') / 'photos', count=16)


def two_steps(folder, photos, backbone):
    """The configs of a run of two steps, and of one that is stopped after the first."""
    shared = {
        'images': photos, 'loop': "dict(type='IterBasedTrainLoop', max_iters=2)",
        'pipeline': VIEWS.format(size=SIZE), 'model': MODEL.format(backbone=backbone),
    }  # fmt: skip
    return [
        write_config(folder / f'{name}.py', more=TARGET + more, **shared)
        for name, more in (('whole', ''), ('halves', STOP.format(1)))
    ]


def backbone_of(name):
    """The value of ``model.backbone``: the name alone, but for networks built for one size."""
    if name != 'torchvision/tiny_vit':
        return name
    return {'type': 'ttl_mm.AdaptedBackbone', 'network': name, 'size': SIZE}


def of_the_zoo():
    return [pytest.param(name, marks=pytest.mark.faults) for name in OF_THE_ZOO]


@pytest.mark.parametrize('name', [*NETWORKS, 'a module', *of_the_zoo()])
def test_two_steps_resume_features_export_and_reload(name, photos, tmp_path):
    if name == 'a module':
        name = give_module(Tokens(class_token=True), SIZE)
    network_facts(name, SIZE if name == 'torchvision/tiny_vit' else None)  # once for all forks
    whole, halves = two_steps(tmp_path, photos, backbone_of(name))
    assert run(whole, tmp_path / 'a') == [0], log_file(tmp_path / 'a').read_text()[-2000:]
    assert run(halves, tmp_path / 'b') == [75]
    assert run(whole, tmp_path / 'b') == [0]
    assert_same_run(tmp_path / 'b', tmp_path / 'a')
    checkpoint, _ = newest_valid(tmp_path / 'a')
    backbone, _, about = load_model(str(checkpoint), device='cpu')
    assert (about['architecture'], about['trained_size']) == (name, SIZE)
    images = torch.randn(2, 3, *[backbone.facts.size] * 2)  # which the library's network takes
    with torch.no_grad():
        features = backbone(images)[0]
    assert features.shape == (2, backbone.facts.width, 1, 1)
    library, _, own = name.partition('/')
    exported = export_backbone(checkpoint, library if library != 'module' else 'plain')
    reloaded = their_network(library, own, torch.load(exported, weights_only=True))
    with torch.no_grad():
        theirs = reloaded(images)
    theirs = theirs[-1] if isinstance(theirs, tuple) else theirs
    theirs = theirs.mean((2, 3)) if theirs.ndim == 4 else theirs
    theirs = theirs[:, 0] if theirs.ndim == 3 else theirs
    torch.testing.assert_close(theirs, features.flatten(1), atol=1e-5, rtol=1e-5)
    for to in ('plain', 'safetensors'):
        path = export_backbone(checkpoint, to, tmp_path / f'weights{FORMATS[to].suffix}')
        again, _, about = load_model(str(path), device='cpu')  # the name is in the file
        assert (about['architecture'], about['trained_size']) == (name, SIZE)
        assert_bit_equal(again.state_dict(), backbone.state_dict())
    if name == 'mmpretrain/mobilenet-v2_8xb32_in1k':
        # After two steps on four images its norms amplify rounding: torch in float32 is 3e-5 off
        # torch in float64, more than an export may differ. The narrow one goes to ONNX.
        return
    session = onnxruntime.InferenceSession(str(export_backbone(checkpoint, 'onnx')))
    meta = json.loads(session.get_modelmeta().custom_metadata_map['ttl_mm'])
    assert (meta['architecture'], meta['input']['size']) == (name, SIZE)
    # padded windows, as those of Swin at this size, are more than torch can trace
    edge = backbone.facts.size if name == 'timm/tiny_swin' else SIZE
    images = torch.randn(2, 3, edge, edge)
    (graph,) = session.run(['features'], {'images': images.numpy()})
    with torch.no_grad():
        features = backbone(images)[0].flatten(1)
    torch.testing.assert_close(torch.from_numpy(graph), features, atol=1e-5, rtol=1e-5)


def their_network(library, name, content):
    """The network as a user of the library would load it, strictly."""
    if library == 'timm':
        network = timm.create_model(name, num_classes=0)
        network.load_state_dict(content, strict=True)
    elif library == 'torchvision':
        options = {'image_size': SIZE} if name == 'tiny_vit' else {}
        network = torchvision.models.get_model(name, **options)
        head = {'tiny_resnet': 'fc', 'tiny_vit': 'heads.head', 'tiny_convnext': 'classifier.2'}
        parent, _, child = head[name].rpartition('.')
        setattr(network.get_submodule(parent), child, torch.nn.Identity())
        network.load_state_dict(content, strict=True)
    elif library == 'mmpretrain':
        config = Config.fromfile(libraries._mmpretrain_configs()[name]).model.backbone
        with DefaultScope.overwrite_default_scope('mmpretrain'):
            network = mmpretrain.registry.MODELS.build(config)
        state = {n.removeprefix('backbone.'): t for n, t in content['state_dict'].items()}
        network.load_state_dict(state, strict=True)
    else:
        network = Tokens(class_token=True)
        network.load_state_dict(content['state_dict'], strict=True)
    network.eval()
    return network


def test_the_command_plans_trains_and_leaves_a_file_that_names_its_network(
    photos, forked, tmp_path, capsys
):
    out = tmp_path / 'run'
    line = ['train', str(photos), '--epochs', '1', '--out', str(out), '--labels', str(photos)]
    vit = [*line, '--backbone', 'torchvision/tiny_vit']
    assert main([*vit, '--size', '40']) == 2
    assert '--size 40 does not fit torchvision/tiny_vit' in capsys.readouterr().err
    torch.save(timm.create_model('test_vit').state_dict(), tmp_path / 'other.pth')
    vit += ['--size', '32', '--init']
    assert main([*vit, str(tmp_path / 'other.pth')]) == 2
    assert 'Give weights of a torchvision/tiny_vit' in capsys.readouterr().err
    theirs = torchvision.models.get_model('tiny_vit', image_size=32)  # with its classifier
    torch.save(theirs.state_dict(), tmp_path / 'theirs.pth')
    assert main([*vit, str(tmp_path / 'theirs.pth'), '--export', 'torchvision']) == 0
    printed = capsys.readouterr().out
    assert 'torchvision.models.get_model(' in printed
    (log,) = out.glob('*/*.log')
    assert f'AdaptedBackbone: all {len(theirs.state_dict()) - 2} tensors from' in log.read_text()
    scalars = {key for record in load_run(out).records for key in record}
    assert {'probe/knn_top1', 'gauge/std', 'gauge/effective_rank'} <= scalars
    backbone, _, about = load_model(str(out / 'backbone.pth'), device='cpu')
    assert about['architecture'] == 'torchvision/tiny_vit'
    assert about['trained_size'] == 32
    moved = backbone.net.conv_proj.weight - theirs.conv_proj.weight
    assert 0 < moved.abs().max() < 0.01  # from these weights, by one small step
    file = [str(out / 'backbone.pth'), '--data', str(photos)]
    knn = ['--knn', '--neighbors', '1']
    assert main(['eval', *file, *knn, '--out', str(tmp_path / 'eval')]) == 0
    assert main(['eval', *file, *knn, '--size', '40', '--out', str(tmp_path / 'none')]) == 2
    assert 'images of 40 pixels: torchvision/tiny_vit takes 32' in capsys.readouterr().err
    assert main(['analyze', *file, '--batch-size', '8', '--out', str(tmp_path / 'analysis')]) == 0


def test_a_module_is_trained_and_stays_as_it_is(photos, forked, tmp_path, capsys):
    module = Tokens()
    before = deepcopy(module.state_dict())
    arguments = {'out': tmp_path / 'run', 'backbone': module, 'size': 32, 'epochs': 1}
    trained = ttl_mm.pretrain(photos, **arguments)
    assert_bit_equal(module.state_dict(), before)
    assert f'{tmp_path}/run/backbone.pth' in capsys.readouterr().out
    state = torch.load(trained.paths['backbone'], weights_only=True)['state_dict']
    assert not torch.equal(state['patches.weight'], before['patches.weight'])
    other = Tokens()
    other.load_state_dict(state)  # its own names
    images = torch.randn(2, 3, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(trained.backbone(images)[0].flatten(1), other(images).mean(1))
    assert ttl_mm.pretrain(photos, **arguments).paths == trained.paths  # finished already
    with pytest.raises(UserError, match='holds a run with backbone module/Tokens-'):
        ttl_mm.pretrain(photos, **{**arguments, 'backbone': Tokens(class_token=True)})
    libraries._GIVEN.clear()  # as in a process that was not given it
    network_facts.cache_clear()
    file = str(trained.paths['backbone'])
    out = tmp_path / 'eval'
    assert main(['eval', file, '--data', str(photos), '--knn', '--out', str(out)]) == 2
    assert 'is a module that was given in Python' in capsys.readouterr().err
    settings = {'protocols': ['knn'], 'k': [1], 'out': str(out)}
    assert evaluate_checkpoint([file], str(photos), backbone=Tokens(), **settings)


def test_modules_that_cannot_be_trained_are_refused_in_one_sentence(photos, monkeypatch):
    with pytest.raises(UserError, match=r'Linear-\w+ computes no features of images \(2, 3, 224'):
        ttl_mm.pretrain(photos, backbone=torch.nn.Linear(7, 2))
    module = Tokens()
    module.act = lambda x: x
    with pytest.raises(UserError, match=r'backbone=Tokens\(...\) cannot be sent to the processes'):
        ttl_mm.pretrain(photos, backbone=module)
    with pytest.raises(UserError, match='a config names a network of a library'):
        ttl_mm.pretrain(photos, backbone=Tokens(), config_out='mine.py')
    monkeypatch.setitem(sys.modules, '__mp_main__', libraries)  # another than __main__
    with pytest.raises(UserError, match="below `if __name__ == '__main__':`"):
        ttl_mm.pretrain(photos, backbone=Tokens())


SCRIPT = """
import sys, ttl_mm
from torch import nn

class Net(nn.Sequential):
    pass

if __name__ == '__main__':
    net = Net(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 3, 2, 1))
    run = ttl_mm.pretrain(sys.argv[1], sys.argv[2], backbone=net, size=32, epochs=1, gpus=2)
    print('trained', type(run.backbone.net).__name__)
"""


@pytest.mark.faults
def test_a_script_trains_a_class_of_its_own_in_two_processes(tmp_path):
    photos = make_folder(tmp_path / 'photos', count=16)
    (tmp_path / 'script.py').write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, 'script.py', str(photos), 'out'], cwd=tmp_path, capture_output=True,
        text=True, timeout=600, check=False, env={**os.environ, 'PYTHONPATH': str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == 'trained Net'


@pytest.mark.parametrize('command', ['train', 'plan', 'eval'])
def test_a_wrong_name_gets_the_nearest_and_code_2(command, photos, tmp_path, capsys):
    torch.save({}, tmp_path / 'file.pth')
    line = {
        'train': ['train', str(photos), '--out', str(tmp_path / 'out')],
        'plan': ['plan', '--images', '9999', '--out', str(tmp_path / 'out.py')],
        'eval': ['eval', str(tmp_path / 'file.pth'), '--data', str(photos)],
    }[command]
    assert main([*line, '--backbone', 'timm/convnext_ato']) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert 'the nearest names are timm/convnext_atto' in lines[0]
    assert not list(tmp_path.glob('out*'))
