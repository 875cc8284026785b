"""Extraction against a plain forward pass, and what must not change its result."""

import hashlib

import numpy as np
import pytest
import torch
from mmpretrain.models import ResNet, SelfSupDataPreprocessor
from PIL import Image
from safetensors.numpy import load_file

from tests.helpers.checkpoints import random_network
from tests.helpers.images import make_folder
from tests.helpers.two_processes import in_two_processes
from ttl_mm.evaluation.data import open_splits
from ttl_mm.evaluation.feature_file import read_features
from ttl_mm.evaluation.features import data_identity, extract_features
from ttl_mm.evaluation.forward import output_stages
from ttl_mm.evaluation.model import IMAGENET


def preprocessor():
    return SelfSupDataPreprocessor(**IMAGENET)


@pytest.fixture
def train(folder):
    return open_splits(str(folder), 32)[0]['train']  # 18 images


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def plain_pass(network, folder, size, edge):
    """PIL and torch alone: short side, center crop, normalize, forward one by one, mean."""
    mean, std = (np.array(IMAGENET[key]) for key in ('mean', 'std'))
    rows = []
    for path in sorted(folder.glob('*/*.png')):
        image = Image.open(path).convert('RGB')
        width, height = (int(edge * side / min(image.size)) for side in image.size)
        image = image.resize((width, height), Image.BILINEAR)
        left, top = round((width - size) / 2), round((height - size) / 2)
        pixels = (np.asarray(image.crop((left, top, left + size, top + size))) - mean) / std
        x = torch.from_numpy(pixels.transpose(2, 0, 1)[None]).float()
        rows.append([stage.mean((2, 3))[0].numpy() for stage in network(x)])
    return [np.stack(stage) for stage in zip(*rows)]


def test_equals_a_plain_forward_pass(network, train, folder, tmp_path):
    path = tmp_path / 'train.safetensors'
    found = extract_features(network, preprocessor(), train, path, stages=(2, 4))
    with torch.no_grad(), output_stages(network, (2, 4)):
        expected = plain_pass(network, folder / 'train', size=32, edge=32)
    np.testing.assert_allclose(found.features, expected[1], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(read_features(path, 2).features, expected[0], rtol=1e-6, atol=1e-6)
    assert found.labels.tolist() == [0] * 6 + [1] * 6 + [2] * 6
    assert found.paths[:2] == ['ant/0.png', 'ant/1.png']
    assert found.classes == ['ant', 'bee', 'cat']
    assert load_file(path).keys() == {'stage2', 'stage4', 'labels', 'paths'}
    network = ResNet(18, base_channels=8, stem_channels=8)
    network.eval()
    make_folder(tmp_path / 'data', size=130, count=2)
    splits, _ = open_splits(str(tmp_path / 'data'), 112)  # 128, then the middle 112
    whole = splits['train'].dataset
    found = extract_features(network, preprocessor(), whole, tmp_path / 'x.safetensors')
    with torch.no_grad():
        (expected,) = plain_pass(network, tmp_path / 'data', size=112, edge=128)
    np.testing.assert_allclose(found.features, expected, rtol=1e-6, atol=1e-6)


def test_batches_workers_and_processes_do_not_change_the_file(network, train, tmp_path):
    hashes = set()
    for size, workers in ((5, 0), (128, 0), (1, 0), (4, 2), (17, 0)):
        path, options = tmp_path / f'{size}', {'batch_size': size, 'num_workers': workers}
        extract_features(network, preprocessor(), train, path, **options)
        hashes.add(sha256(path))

    def extract_share(rank):
        extract_features(network, preprocessor(), train, tmp_path / 'shared', batch_size=4)

    in_two_processes(tmp_path, extract_share)
    assert hashes == {sha256(tmp_path / 'shared')}


def test_an_interrupted_extraction_goes_on_and_other_weights_start_over(train, tmp_path):
    network, seen = random_network(0), []  # the number of images in each forward pass

    def count(module, inputs):
        if sum(seen) == 2 + 9:  # of 2 + 18
            raise KeyboardInterrupt
        seen.append(len(inputs[0]))

    def extract(path):
        return extract_features(network, preprocessor(), train, path, {'note': 'x'}, batch_size=3)

    path, whole = tmp_path / 'a.safetensors', tmp_path / 'b.safetensors'
    handle = network.register_forward_pre_hook(count)
    with pytest.raises(KeyboardInterrupt):
        extract(path)
    assert not path.exists()
    seen.clear()
    extract(path)
    assert seen == [2, 3, 3, 3]  # a look at the shapes, then the other three batches
    extract(path)  # finished: nothing is computed
    handle.remove()
    features = np.array(extract(whole).features)
    assert sha256(path) == sha256(whole)
    assert list(tmp_path.glob('*.p*')) == []
    other = extract_features(random_network(1), preprocessor(), train, path)
    assert np.abs(other.features - features).max() > 1e-3


class InMemory:
    """As mmpretrain's CIFAR10 holds its images: views that are not contiguous, and no paths."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def get_data_info(self, index):
        return {'img': self.images[index].transpose(1, 2, 0), 'gt_label': self.labels[index]}


def test_the_fingerprint_knows_images_and_labels():
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 4, 4)).astype(np.uint8)
    base = data_identity(InMemory(images, [0, 1, 2]))
    assert base == data_identity(InMemory(images.copy(), [0, 1, 2]))
    assert base != data_identity(InMemory(images, [0, 1, 1]))
    images = images.copy()
    images[2, 0, 0, 0] ^= 1
    assert base != data_identity(InMemory(images, [0, 1, 2]))
