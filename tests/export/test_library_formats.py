"""Files of networks of libraries; the whole way is in tests/pretraining/test_any_backbone.py."""

import pytest
import timm
import torch
from mmengine.registry import DefaultScope

from ttl_mm.checkpoint.architecture import Architecture
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.evaluation.model import load_model
from ttl_mm.export import export_backbone, usage_hint
from ttl_mm.models import AdaptedBackbone
from ttl_mm.registry import MODELS


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    """Checkpoints that name their networks."""
    folder = tmp_path_factory.mktemp('checkpoints')
    for name in ('test_vit', 'resnet18', 'mobilenetv3_small_050'):
        torch.manual_seed(0)
        network = AdaptedBackbone(f'timm/{name}')
        meta = {'backbone': Architecture(f'timm/{name}').config}
        torch.save({'meta': meta, 'state_dict': network.state_dict()}, folder / f'{name}.pth')
    return folder


def test_a_transformer_goes_to_onnx_and_into_the_hint(files, capsys):
    path = export_backbone(files / 'test_vit.pth', 'onnx')  # compared on random images
    assert path.name == 'test_vit_onnx.onnx'
    assert main(['export', str(files / 'test_vit.pth'), '--to', 'timm']) == 0
    hint = capsys.readouterr().out.partition('load it with: ')[2]
    images = torch.randn(2, 3, 160, 160)
    with torch.no_grad():
        theirs = eval(hint, {'timm': timm}).eval()(images)
        ours = load_model(str(files / 'test_vit.pth'), device='cpu')[0](images)[0].flatten(1)
    torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=1e-5)
    scope: dict = {}
    exec(usage_hint(export_backbone(files / 'test_vit.pth', 'plain'), 'plain'), scope)
    with torch.no_grad():
        torch.testing.assert_close(scope['network'].eval()(images)[0].flatten(1), ours)


def test_a_resnet_of_a_library_is_one_for_all(files):
    for to in ('torchvision', 'mmdet'):
        assert export_backbone(files / 'resnet18.pth', to).is_file()


def test_where_a_tool_does_not_have_the_network_it_says_so(files, tmp_path):
    for to in ('mmdet', 'torchvision', 'detectron2'):
        with pytest.raises(UserError, match=f'{to} has no timm/test_vit: export it to plain or'):
            export_backbone(files / 'test_vit.pth', to, tmp_path / 'out')
    assert not list(tmp_path.iterdir())


def detector_of(path):
    init = {'type': 'ttl_mm.PretrainedBackbone', 'checkpoint': str(path)}
    with DefaultScope.overwrite_default_scope('mmdet'):
        return MODELS.build({'type': 'mmdet.ResNet', 'depth': 18, 'init_cfg': init})


@pytest.mark.parametrize('name', ['test_vit', 'mobilenetv3_small_050'])  # no, and a common name
def test_a_detector_refuses_another_network_in_one_sentence(files, name):
    detector = detector_of(files / f'{name}.pth')
    with pytest.raises(UserError, match=f'holds timm/{name}, and ResNet here takes the stages'):
        detector.init_weights()


def test_a_detector_takes_a_resnet_of_a_library(files):
    detector = detector_of(files / 'resnet18.pth')
    detector.init_weights()
    state = torch.load(files / 'resnet18.pth', weights_only=True)['state_dict']
    assert torch.equal(detector.layer4[1].conv2.weight, state['layer4.1.conv2.weight'])


def test_bare_weights_of_a_library_are_a_start_and_can_be_evaluated(files, tmp_path):
    network = timm.create_model('test_vit')  # with its classifier
    torch.save(network.state_dict(), tmp_path / 'theirs.pth')
    init = {'type': 'ttl_mm.PretrainedBackbone', 'checkpoint': str(tmp_path / 'theirs.pth')}
    backbone = AdaptedBackbone('timm/test_vit', init_cfg=init)
    backbone.init_weights()
    assert torch.equal(backbone.net.pos_embed, network.pos_embed)
    loaded = load_model(str(tmp_path / 'theirs.pth'), device='cpu', network='timm/test_vit')[0]
    assert torch.equal(loaded.net.pos_embed, network.pos_embed)
    with pytest.raises(UserError, match='Give weights of timm/test_resnet'):
        load_model(str(tmp_path / 'theirs.pth'), device='cpu', network='timm/test_resnet')
    assert load_backbone_state(files / 'test_vit.pth').keys() == backbone.state_dict().keys()
