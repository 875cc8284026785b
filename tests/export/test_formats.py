"""Each tool loads its own file and computes the same."""

import pickle
import shlex
import subprocess
import sys

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from torch import nn

from tests.helpers.checkpoints import assert_bit_equal
from ttl_mm.checkpoint.layouts import to_detectron2
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError
from ttl_mm.export import export_backbone, import_remark, usage, usage_hint


@pytest.mark.parametrize('depth', [18, 50])
def test_outputs_in_torchvision_and_timm(depth, nets, checkpoints, tmp_path):
    images = torch.randn(2, 3, 128, 96)
    with torch.no_grad():
        wanted = nets[depth](images)[-1].mean((2, 3))
    source = checkpoints / f'r{depth}.pth'
    path = export_backbone(source, 'torchvision', tmp_path / 'tv.pth')
    net = torchvision.models.get_model(f'resnet{depth}')
    missing = net.load_state_dict(torch.load(path, weights_only=True), strict=False)
    assert missing == (['fc.weight', 'fc.bias'], [])
    net.fc = nn.Identity()
    torch.testing.assert_close(net.eval()(images), wanted, atol=1e-5, rtol=1e-5)
    path = export_backbone(source, 'timm', tmp_path / 'timm.pth')
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


def test_detectron2_takes_our_files_and_we_take_those_of_others(nets, checkpoints, tmp_path):
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
    # as MoCo's converter writes them: a plain pickle of NumPy's own making
    house = nets[50].state_dict()
    model = {to_detectron2(name): t.numpy() for name, t in house.items()}
    assert model.keys() == net.state_dict().keys()
    content = {'model': model, '__author__': 'MOCO', 'matching_heuristics': True}
    for protocol in (2, 4, 5):
        (tmp_path / 'moco.pkl').write_bytes(pickle.dumps(content, protocol=protocol))
        assert_bit_equal(load_backbone_state(tmp_path / 'moco.pkl'), house)


def test_hints_run_as_printed_and_a_missing_tool_is_named(checkpoints, tmp_path, monkeypatch):
    """The hint for Python is run as it is printed."""
    path = export_backbone(checkpoints / 'r18.pth', 'torchvision', tmp_path / "it's a file.pth")
    hint = usage_hint(path, 'torchvision')
    loaded = eval(hint, {'torch': torch, 'torchvision': torchvision})
    assert loaded.missing_keys == ['fc.weight', 'fc.bias']
    path = export_backbone(checkpoints / 'r18.pth', 'timm', path, overwrite=True)
    assert eval(usage_hint(path, 'timm'), {'timm': timm}).num_features == 512
    path = export_backbone(checkpoints / 'r50.pth', 'detectron2', tmp_path / 'two words.pkl')
    options = shlex.split(usage_hint(path, 'detectron2'))
    assert options[:4] == ['MODEL.WEIGHTS', str(path), 'MODEL.RESNETS.DEPTH', '50']
    monkeypatch.setitem(sys.modules, 'timm', None)
    with pytest.raises(UserError, match=r'timm, which cannot be imported .*ttl-mm\[export\]'):
        export_backbone(checkpoints / 'r18.pth', 'timm')


def test_a_hint_says_so_where_plain_python_cannot_import_torchvision(monkeypatch):
    monkeypatch.setattr(usage, 'ops_load', lambda: False)
    assert 'ttl doctor' in import_remark('timm.create_model(...)')
    assert import_remark('safetensors.torch.load_file(...)') == ''
    monkeypatch.setattr(usage, 'ops_load', lambda: True)
    assert import_remark('import torchvision.models') == ''
