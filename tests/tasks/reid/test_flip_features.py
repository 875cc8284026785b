import ttl_mm.registry  # noqa: F401  isort: skip
import numpy as np
import pytest
import torch
from mmpretrain.models import ResNet
from mmpretrain.structures import DataSample

from ttl_mm.tasks.reid.flip_features import FlipFeatures, combine_flip


def test_flip_variants():
    image, mirrored = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 10.0]])
    clean, reference = np.array([3, 14]), np.array([0.6, 10.8])
    for flag, expected in ((False, clean), (True, reference)):
        found = combine_flip(image, mirrored, reference_flip=flag).numpy()
        np.testing.assert_allclose(found, [expected / np.linalg.norm(expected)], rtol=1e-6)


@pytest.mark.parametrize('reference_flip', [False, True])
def test_features_equal_two_plain_passes(reference_flip):
    torch.manual_seed(0)
    plain = ResNet(depth=18)
    plain.eval()  # returns None
    model = FlipFeatures(dict(type='ResNet', depth=18), reference_flip).eval()
    model.backbone.load_state_dict(plain.state_dict())
    images = torch.randn(3, 3, 64, 32)
    with torch.no_grad():
        first = plain(images)[-1].numpy().mean(axis=(2, 3))
        second = plain(torch.from_numpy(images.numpy()[..., ::-1].copy()))[-1]
        if reference_flip:
            first /= np.linalg.norm(first, axis=1, keepdims=True)
        expected = first + second.numpy().mean(axis=(2, 3))
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
        np.testing.assert_allclose(model(images).numpy(), expected, rtol=1e-4, atol=1e-6)
        samples = model(images, [DataSample() for _ in range(3)], mode='predict')
    np.testing.assert_array_equal(samples[1].feature, model(images)[1].detach())
