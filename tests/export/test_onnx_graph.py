import numpy as np
import onnxruntime
import pytest
import torch

from tests.helpers.checkpoints import make_resnet, random_network
from ttl_mm.export import export_backbone


@pytest.mark.parametrize('name', ['ResNet-18', 'ResNet-50', 'CIFAR'])
def test_onnx_computes_any_size(name, tmp_path):
    net = random_network(0) if name == 'CIFAR' else make_resnet(int(name[-2:]))
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
