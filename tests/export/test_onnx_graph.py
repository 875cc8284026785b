import numpy as np
import onnxruntime
import pytest
import torch
from mmpretrain.models import ResNet_CIFAR

from tests.helpers.checkpoints import make_resnet
from ttl_mm.export import export_backbone


def cifar():
    return ResNet_CIFAR(depth=18, stem_channels=16, base_channels=16)


@pytest.mark.parametrize('build', [lambda: make_resnet(18), lambda: make_resnet(50), cifar])
def test_onnx_computes_any_size(build, tmp_path):
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
