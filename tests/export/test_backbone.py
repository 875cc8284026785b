"""Exported backbones: bit-equal after a round trip, and the same outputs in the other tool."""

from dataclasses import replace

import pytest
import torch
from mmpretrain.models import ResNet, ResNet_CIFAR

from tests.helpers.checkpoints import assert_bit_equal, below
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.export import export_backbone, formats


def narrow(to, depth):
    """The name of a narrow network, or of the usual one for tools that have no other."""
    return depth if to in ('torchvision', 'timm') else f'narrow_{depth}'


@pytest.mark.parametrize('depth', [18, 50])
@pytest.mark.parametrize('to', formats.FORMATS)
def test_round_trip(to, depth, nets, checkpoints, tmp_path):
    name = narrow(to, 50) if depth == 50 else depth  # blocks of three layers, usual widths
    source, path = checkpoints / f'r{name}.pth', tmp_path / f'out{formats.FORMATS[to].suffix}'
    assert export_backbone(source, to, path) == path
    assert_bit_equal(load_backbone_state(path), nets[name].state_dict())
    assert list(tmp_path.iterdir()) == [path]
    if to == 'mmpretrain':  # the same tensors give the same file
        again = export_backbone(source, to, tmp_path / 'again.pth')
        assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize('to', formats.FORMATS)
def test_changed_tensors_and_other_outputs_refuse_to_write(to, checkpoints, tmp_path, monkeypatch):
    """A changed tensor; a tool that computes slightly differently, in one value of many."""
    original, name = formats.FORMATS[to], 'layer4.1.bn2.bias'
    path = tmp_path / f'out{original.suffix}'
    path.write_text('old')

    def write(state, meta, path):
        original.write({**state, name: state[name] + 1e-6}, meta, path)

    def read(path, meta):
        features = original.read(path, meta)

        def wrong(images):
            maps = features(images).clone()
            maps.view(-1)[7] += 3e-5 * maps.abs().max().clamp(min=1)
            return maps

        return wrong

    for changes, problem in (
        ({'write': write}, f'gives back other values for {name}'),
        ({'read': read}, 'computes something else'),
    ):
        monkeypatch.setitem(formats.FORMATS, to, replace(original, **changes))
        with pytest.raises(UserError, match=f'nothing was written: .* {problem}'):
            export_backbone(checkpoints / f'r{narrow(to, 18)}.pth', to, path, overwrite=True)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == 'old'


def test_overflow_and_other_shapes_are_refused(nets, checkpoints, tmp_path, monkeypatch):
    state = {n: t * 1e12 if 'conv' in n else t for n, t in nets[18].state_dict().items()}
    torch.save(state, tmp_path / 'huge.pth')
    with pytest.raises(UserError, match='overflows'):
        export_backbone(tmp_path / 'huge.pth', 'timm')
    wrong = replace(formats.FORMATS['timm'], read=lambda path, meta: lambda images: images)
    monkeypatch.setitem(formats.FORMATS, 'timm', wrong)
    with pytest.raises(UserError, match=r'computes \(2, 3, 96, 80\), mmpretrain \(2, 512, 3, 3\)'):
        export_backbone(checkpoints / 'r18.pth', 'timm', tmp_path / 'out.pth')


def test_other_networks_and_files_without_batch_counters(nets, tmp_path):
    for name, net in {
        'narrow': ResNet(depth=50, stem_channels=8, base_channels=8),
        'cifar': ResNet_CIFAR(depth=18, stem_channels=16, base_channels=16),
        'deep': ResNet(depth=18, stem_channels=16, base_channels=8, deep_stem=True, avg_down=True),
    }.items():
        torch.save(net.state_dict(), tmp_path / f'{name}.pth')
        for to in ('mmpretrain', 'safetensors'):
            found = load_backbone_state(export_backbone(tmp_path / f'{name}.pth', to))
            assert_bit_equal(found, net.state_dict())
    refused = [('mmdet', 'cifar'), ('detectron2', 'deep'), ('onnx', 'deep'), ('timm', 'cifar')]
    for to, name in (*refused, ('torchvision', 'narrow')):
        with pytest.raises(UserError, match=rf'{to} has no ResNet-\d+ \('):
            export_backbone(tmp_path / f'{name}.pth', to)
    # as old files are, and those of detectron2's frozen norms
    state = {n: t for n, t in nets[18].state_dict().items() if not n.endswith('_tracked')}
    torch.save(state, tmp_path / 'old.pth')
    for to in formats.FORMATS:
        assert_bit_equal(load_backbone_state(export_backbone(tmp_path / 'old.pth', to)), state)


def test_import_and_export_commands(nets, checkpoints, tmp_path, capsys):
    state = nets[18].state_dict()
    torch.save({'state_dict': below('module.encoder_q.', state)}, tmp_path / 'moco.pth.tar')
    out = str(tmp_path / 'ours.pth')
    assert main(['import', str(tmp_path / 'moco.pth.tar'), '--out', out]) == 0
    assert '(ResNet-18, 120 tensors)' in capsys.readouterr().out
    content = torch.load(out, weights_only=True)
    assert_bit_equal(content['state_dict'], below('backbone.', state))
    assert content['meta']['source']['file'] == 'moco.pth.tar'
    source, out = str(checkpoints / 'r18.pth'), str(tmp_path / 'x.safetensors')
    job = ['export', source, '--to', 'safetensors', '--out', out]
    assert main(job) == 0
    assert f'load_file({out!r})' in capsys.readouterr().out
    assert main(job) == 2  # it exists
    assert main([*job, '--overwrite', '--prefix', 'target_backbone.']) == 0
    halved = load_backbone_state(source)['conv1.weight'] / 2
    assert torch.equal(load_backbone_state(out)['conv1.weight'], halved)
    assert main(['export', source, '--to', 'timm', '--out', source, '--overwrite']) == 2
    assert 'is the file that is read' in capsys.readouterr().err
