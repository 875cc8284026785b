import ttl_mm.registry  # noqa: F401  isort: skip
import numpy as np
import torch
from mmpretrain.models import ResNet

from ttl_mm.tasks.reid.flip_features import FlipFeatures, combine_flip


def test_flip_variants():
    image, mirrored = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 10.0]])
    clean, reference = np.array([3, 14]), np.array([0.6, 10.8])
    for flag, expected in ((False, clean), (True, reference)):
        found = combine_flip(image, mirrored, reference_flip=flag).numpy()
        np.testing.assert_allclose(found, [expected / np.linalg.norm(expected)], rtol=1e-6)


def test_features_equal_two_plain_passes():
    torch.manual_seed(0)
    plain = ResNet(depth=18)
    plain.eval()  # returns None
    images = torch.randn(3, 3, 64, 32)
    with torch.no_grad():
        first = plain(images)[-1].numpy().mean(axis=(2, 3))
        mirrored = torch.from_numpy(images.numpy()[..., ::-1].copy())
        second = plain(mirrored)[-1].numpy().mean(axis=(2, 3))
        for reference_flip in (False, True):
            length = np.linalg.norm(first, axis=1, keepdims=True) if reference_flip else 1
            expected = first / length + second
            expected /= np.linalg.norm(expected, axis=1, keepdims=True)
            found = FlipFeatures(plain, reference_flip)(images).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
