"""Exported backbones: bit-equal after a round trip, and the same outputs in the other tool."""

import pickle
import shlex
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from mmpretrain.models import ResNet, ResNet_CIFAR
from torch import nn

from tests.checkpoint.test_load import below, make, other
from ttl_mm.checkpoint.coverage import load_state
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.export import export_backbone, formats, usage_hint


@pytest.fixture(scope='module')
def nets():
    return {depth: make(depth) for depth in (18, 50)}


@pytest.fixture(scope='module')
def checkpoints(nets, tmp_path_factory):
    """A checkpoint of ours per depth: online and target network, neck, optimizer."""
    folder = tmp_path_factory.mktemp('checkpoints')
    for depth, net in nets.items():
        state = net.state_dict()
        networks = {**below('backbone.', state), 'neck.fc0.weight': torch.zeros(2, 2)}
        if depth == 18:
            networks |= below('target_backbone.', other(state))
        torch.save({'state_dict': networks, 'optimizer': {}}, folder / f'r{depth}.pth')
    return folder


def assert_bit_equal(found, state):
    assert found.keys() == state.keys()
    for name, tensor in state.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize('depth', [18, 50])
@pytest.mark.parametrize('to', formats.FORMATS)
def test_round_trip(to, depth, nets, checkpoints, tmp_path):
    path = export_backbone(
        checkpoints / f'r{depth}.pth', to, tmp_path / f'out{formats.FORMATS[to].suffix}'
    )
    assert_bit_equal(load_backbone_state(path), nets[depth].state_dict())
    assert list(tmp_path.iterdir()) == [path]


def cifar():
    return ResNet_CIFAR(depth=18, stem_channels=16, base_channels=16)


@pytest.mark.parametrize('build', [lambda: make(18), lambda: make(50), cifar])
def test_onnx_computes_any_size(build, tmp_path):
    import onnxruntime

    net = build()
    net.eval()
    torch.save(net.state_dict(), tmp_path / 'in.pth')
    path = export_backbone(tmp_path / 'in.pth', 'onnx')
    session = onnxruntime.InferenceSession(path, providers=['CPUExecutionProvider'])
    images = torch.randn(3, 3, 33, 65)
    found = session.run(['features', 'feature_map'], {'images': images.numpy()})
    with torch.no_grad():
        wanted = net(images)[-1]
    scale = max(1, wanted.abs().max().item())
    np.testing.assert_allclose(found[0], wanted.mean((2, 3)), atol=1e-5 * scale)
    np.testing.assert_allclose(found[1], wanted, atol=1e-5 * scale)


@pytest.mark.parametrize('depth', [18, 50])
def test_outputs_in_torchvision_and_timm(depth, nets, checkpoints, tmp_path):
    images = torch.randn(2, 3, 128, 96)
    with torch.no_grad():
        wanted = nets[depth](images)[-1].mean((2, 3))
    path = export_backbone(checkpoints / f'r{depth}.pth', 'torchvision', tmp_path / 'tv.pth')
    net = getattr(torchvision.models, f'resnet{depth}')()
    missing = net.load_state_dict(torch.load(path, weights_only=True), strict=False)
    assert missing.missing_keys == ['fc.weight', 'fc.bias']
    assert missing.unexpected_keys == []
    net.fc = nn.Identity()
    torch.testing.assert_close(net.eval()(images), wanted, atol=1e-5, rtol=1e-5)
    path = export_backbone(checkpoints / f'r{depth}.pth', 'timm', tmp_path / 'timm.pth')
    net = timm.create_model(f'resnet{depth}', num_classes=0, checkpoint_path=str(path))
    torch.testing.assert_close(net.eval()(images), wanted, atol=1e-5, rtol=1e-5)


class ConvNorm(nn.Conv2d):
    """detectron2 keeps the norm inside the convolution that it follows."""

    def __init__(self, n_in, n_out, kernel, stride=1):
        super().__init__(n_in, n_out, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(n_out)

    def forward(self, x):
        return self.norm(super().forward(x))


class Bottleneck(nn.Module):
    def __init__(self, n_in, n_mid, stride):
        super().__init__()
        self.shortcut = ConvNorm(n_in, 4 * n_mid, 1, stride) if n_in != 4 * n_mid else None
        self.conv1 = ConvNorm(n_in, n_mid, 1)
        self.conv2 = ConvNorm(n_mid, n_mid, 3, stride)  # STRIDE_IN_1X1 False
        self.conv3 = ConvNorm(n_mid, 4 * n_mid, 1)

    def forward(self, x):
        y = self.conv3(F.relu(self.conv2(F.relu(self.conv1(x)))))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class Detectron2ResNet50(nn.Module):
    """The module tree of detectron2's ResNet-50, by its documentation."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Module()
        self.stem.conv1 = ConvNorm(3, 64, 7, 2)
        n_in = 64
        for i, (n_mid, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
            strides = [1 if i == 0 else 2, *[1] * (blocks - 1)]
            stage = [Bottleneck(n_in if j == 0 else 4 * n_mid, n_mid, s)
                     for j, s in enumerate(strides)]  # fmt: skip
            setattr(self, f'res{i + 2}', nn.Sequential(*stage))
            n_in = 4 * n_mid

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem.conv1(x)), 3, 2, 1)
        return self.res5(self.res4(self.res3(self.res2(x))))


def test_detectron2_file_is_what_its_loader_accepts(nets, checkpoints, tmp_path):
    """Loaded by a plain unpickler in a fresh process, as its loader does, and computed with."""
    path = export_backbone(checkpoints / 'r50.pth', 'detectron2', tmp_path / 'd2.pkl')
    code = (
        'import pickle, sys\n'
        'data = pickle.load(open(sys.argv[1], "rb"), encoding="latin1")\n'
        'assert "model" in data and "__author__" in data and data["matching_heuristics"] is True\n'
        'import numpy\n'
        'for value in data["model"].values():\n'
        '    assert type(value) is numpy.ndarray and value.flags.writeable\n'
    )
    subprocess.run([sys.executable, '-c', code, path], check=True)
    assert b'ttl_mm.' not in path.read_bytes()  # needs no package of ours to be loaded
    net = Detectron2ResNet50()
    net.load_state_dict(read_checkpoint(path)['model'])
    images = torch.randn(1, 3, 64, 96)
    with torch.no_grad():
        torch.testing.assert_close(net.eval()(images), nets[50](images)[-1], atol=1e-5, rtol=1e-5)


def test_detectron2_files_of_others_are_read(nets, tmp_path):
    """As MoCo's converter writes them: a plain pickle of NumPy's own making."""
    house = nets[50].state_dict()
    model = {formats.layouts.to_detectron2(name): t.numpy() for name, t in house.items()}
    assert model.keys() == Detectron2ResNet50().state_dict().keys()
    for protocol in (2, 4, 5):
        content = {'model': model, '__author__': 'MOCO', 'matching_heuristics': True}
        (tmp_path / 'moco.pkl').write_bytes(pickle.dumps(content, protocol=protocol))
        assert_bit_equal(load_backbone_state(tmp_path / 'moco.pkl'), house)


@pytest.mark.parametrize('to', formats.FORMATS)
def test_changed_tensor_refuses_to_write(to, checkpoints, tmp_path, monkeypatch):
    original = formats.FORMATS[to]

    def spoil(state, meta, path):
        name = 'layer4.1.bn2.bias'
        original.write({**state, name: state[name] + 1e-6}, meta, path)

    monkeypatch.setitem(formats.FORMATS, to, replace(original, write=spoil))
    with pytest.raises(UserError, match=r'nothing was written: .* values for layer4\.1\.bn2\.bias'):
        export_backbone(checkpoints / 'r18.pth', to, tmp_path / f'out{original.suffix}')
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('to', formats.FORMATS)
def test_other_outputs_refuse_to_write(to, checkpoints, tmp_path, monkeypatch):
    """The right tensors in a tool that computes slightly differently, in one value of many."""
    original = formats.FORMATS[to]

    def read(path, meta):
        features = original.read(path, meta)

        def wrong(images):
            maps = features(images).clone()
            maps.view(-1)[7] += 3e-5 * maps.abs().max().clamp(min=1)
            return maps

        return wrong

    monkeypatch.setitem(formats.FORMATS, to, replace(original, read=read))
    with pytest.raises(UserError, match=r'nothing was written: .* computes something else'):
        export_backbone(checkpoints / 'r18.pth', to, tmp_path / f'out{original.suffix}')
    assert list(tmp_path.iterdir()) == []


def test_overflowing_network_is_refused(nets, tmp_path):
    state = {n: t * 1e12 if 'conv' in n else t for n, t in nets[18].state_dict().items()}
    torch.save(state, tmp_path / 'huge.pth')
    with pytest.raises(UserError, match='overflows'):
        export_backbone(tmp_path / 'huge.pth', 'timm')


def test_existing_file_survives_a_refusal(checkpoints, tmp_path, monkeypatch):
    path = tmp_path / 'out.pth'
    path.write_text('old')
    original = formats.FORMATS['timm']
    wrong = replace(original, read=lambda path, meta: lambda images: images)
    monkeypatch.setitem(formats.FORMATS, 'timm', wrong)
    with pytest.raises(UserError, match='nothing was written'):
        export_backbone(checkpoints / 'r18.pth', 'timm', path)
    assert path.read_text() == 'old'


def test_narrow_and_cifar_networks(tmp_path):
    for name, net in {
        'narrow': ResNet(depth=50, stem_channels=8, base_channels=8),
        'cifar': ResNet_CIFAR(depth=18, stem_channels=16, base_channels=16),
        'deep': ResNet(depth=18, stem_channels=16, base_channels=8, deep_stem=True, avg_down=True),
    }.items():
        torch.save(net.state_dict(), tmp_path / f'{name}.pth')
        for to in ('mmpretrain', 'safetensors'):
            found = load_backbone_state(export_backbone(tmp_path / f'{name}.pth', to))
            assert_bit_equal(found, net.state_dict())
    refused = {'mmdet': 'cifar', 'detectron2': 'deep', 'onnx': 'deep', 'torchvision': 'narrow',
               'timm': 'cifar'}  # fmt: skip
    for to, name in refused.items():
        with pytest.raises(UserError, match=rf'{to} has no ResNet-\d+ \('):
            export_backbone(tmp_path / f'{name}.pth', to)


def test_files_without_batch_counters(nets, tmp_path):
    """As old ones are, and those of detectron2's frozen norms."""
    state = {n: t for n, t in nets[18].state_dict().items() if not n.endswith('_tracked')}
    torch.save(state, tmp_path / 'old.pth')
    for to in formats.FORMATS:
        assert_bit_equal(load_backbone_state(export_backbone(tmp_path / 'old.pth', to)), state)


def test_missing_tool_is_named(checkpoints, monkeypatch):
    monkeypatch.setitem(sys.modules, 'timm', None)
    with pytest.raises(UserError, match=r'timm, which cannot be imported .*ttl-mm\[export\]'):
        export_backbone(checkpoints / 'r18.pth', 'timm')


def test_import_of_moco_then_load(nets, tmp_path, capsys):
    state = nets[18].state_dict()
    torch.save({'state_dict': below('module.encoder_q.', state)}, tmp_path / 'moco.pth.tar')
    assert (
        main(['import', str(tmp_path / 'moco.pth.tar'), '--out', str(tmp_path / 'ours.pth')]) == 0
    )
    assert '(ResNet-18, 120 tensors)' in capsys.readouterr().out
    content = torch.load(tmp_path / 'ours.pth', weights_only=True)
    assert_bit_equal(
        {n.removeprefix('backbone.'): t for n, t in content['state_dict'].items()}, state
    )
    assert content['meta']['source']['file'] == 'moco.pth.tar'


def test_export_command(checkpoints, tmp_path, capsys):
    out = str(tmp_path / 'x.safetensors')
    source = str(checkpoints / 'r18.pth')
    assert main(['export', source, '--to', 'safetensors', '--out', out]) == 0
    assert f'load_file({out!r})' in capsys.readouterr().out
    target = ['--prefix', 'target_backbone.']
    assert main(['export', source, '--to', 'safetensors', '--out', out, *target]) == 0
    halved = load_backbone_state(source)['conv1.weight'] / 2
    assert torch.equal(load_backbone_state(out)['conv1.weight'], halved)
    assert main(['export', str(tmp_path / 'none.pth'), '--to', 'timm']) == 2


def test_hints_name_the_architecture_and_quote_the_path(checkpoints, tmp_path):
    """The hint for Python is run as it is printed."""
    path = export_backbone(checkpoints / 'r18.pth', 'torchvision', tmp_path / "it's a file.pth")
    hint = usage_hint(path, 'torchvision')
    loaded = eval(hint, {'torch': torch, 'torchvision': torchvision})
    assert loaded.missing_keys == ['fc.weight', 'fc.bias']
    path = export_backbone(checkpoints / 'r18.pth', 'timm', path)
    assert eval(usage_hint(path, 'timm'), {'timm': timm}).num_features == 512
    path = export_backbone(checkpoints / 'r50.pth', 'detectron2', tmp_path / 'two words.pkl')
    options = shlex.split(usage_hint(path, 'detectron2'))
    assert options[:4] == ['MODEL.WEIGHTS', str(path), 'MODEL.RESNETS.DEPTH', '50']


def test_same_tensors_give_the_same_file(checkpoints, tmp_path):
    paths = [
        export_backbone(checkpoints / 'r18.pth', 'mmpretrain', tmp_path / n)
        for n in ('a.pth', 'b.pth')
    ]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_exported_file_loads_into_a_backbone(checkpoints, nets, tmp_path):
    path = export_backbone(checkpoints / 'r18.pth', 'mmdet', tmp_path / 'a.pth')
    net = make(18)
    nn.init.zeros_(net.conv1.weight)
    assert load_state(net, load_backbone_state(path), str(path)).coverage == 1
    assert torch.equal(net.conv1.weight, nets[18].conv1.weight)
