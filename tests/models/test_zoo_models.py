"""get_model and ttl_mm:// both go through the checked cache."""

import hashlib
import json
from itertools import product

import pytest
import torch
from mmengine.runner import CheckpointLoader, load_checkpoint
from mmpretrain.models import ResNet
from torch import nn

import ttl_mm
from tests.helpers.checkpoints import RunsCode, below
from ttl_mm.errors import UserError
from ttl_mm.registry import MODELS

BACKBONE = {'type': 'mmpretrain.ResNet', 'depth': 18, 'stem_channels': 8, 'base_channels': 8}


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A zoo of one narrow ResNet-18; gives its weights and the path of its file."""
    net = MODELS.build(BACKBONE)
    file = tmp_path / 'share' / 'tiny.pth'
    file.parent.mkdir()
    torch.save({'state_dict': below('backbone.', net.state_dict())}, file)
    write_manifest(tmp_path, file)
    monkeypatch.setenv('TTL_ZOO_MANIFEST', str(tmp_path / 'manifest.json'))
    monkeypatch.setenv('TTL_ZOO_CACHE', str(tmp_path / 'cache'))
    return net, file


def write_manifest(folder, file):
    data = file.read_bytes()
    entry = {
        'file': file.name, 'size': len(data), 'sha256': hashlib.sha256(data).hexdigest(),
        'urls': [file.as_uri()], 'kind': 'backbone', 'license': 'none', 'about': 'test',
        'backbone': BACKBONE,
    }  # fmt: skip
    (folder / 'manifest.json').write_text(json.dumps({'tiny': entry}))


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_get_model(zoo, tmp_path):
    net, _ = zoo
    model = ttl_mm.get_model('tiny')
    assert isinstance(model, ResNet)
    assert same(model, net)
    assert not model.training
    assert not same(ttl_mm.get_model('tiny', pretrained=False), net)
    assert len(ttl_mm.get_model('tiny', out_indices=(0, 3))(torch.zeros(1, 3, 32, 32))) == 2
    other = MODELS.build(BACKBONE)
    torch.save({'state_dict': below('encoder_q.', other.state_dict())}, tmp_path / 'own.pth')
    assert same(ttl_mm.get_model('tiny', pretrained=tmp_path / 'own.pth'), other)


def test_init_cfg_of_a_backbone_and_load_from_of_a_whole_model(zoo):
    for kind, prefix in product(['mmpretrain.ResNet', 'mmdet.ResNet'], [None, 'backbone.']):
        init_cfg = {'type': 'Pretrained', 'checkpoint': 'ttl_mm://tiny', 'prefix': prefix}
        model = MODELS.build({**BACKBONE, 'type': kind, 'init_cfg': init_cfg})
        model.init_weights()
        assert same(model, zoo[0])
    whole = nn.ModuleDict({'backbone': MODELS.build(BACKBONE)})
    load_checkpoint(whole, 'ttl_mm://tiny')
    assert same(whole.backbone, zoo[0])


def test_scheme_refuses_what_the_manifest_does_not_match_and_runs_nothing(zoo, tmp_path):
    _, file = zoo
    file.write_bytes(file.read_bytes()[:-1] + b'x')
    with pytest.raises(UserError, match='its sha256 is'):
        CheckpointLoader.load_checkpoint('ttl_mm://tiny')
    assert not (tmp_path / 'cache' / 'tiny.pth').exists()
    torch.save({'state_dict': {}, 'meta': RunsCode(tmp_path / 'ran')}, file)
    write_manifest(tmp_path, file)
    with pytest.raises(UserError, match='refused'):
        CheckpointLoader.load_checkpoint('ttl_mm://tiny')
    assert not (tmp_path / 'ran').exists()


def test_export_of_a_zoo_entry_lands_in_the_current_folder(zoo, tmp_path, monkeypatch):
    from ttl_mm.export import export_backbone

    (tmp_path / 'here').mkdir()
    monkeypatch.chdir(tmp_path / 'here')
    assert export_backbone('ttl_mm://tiny', 'safetensors').resolve().parent == tmp_path / 'here'
