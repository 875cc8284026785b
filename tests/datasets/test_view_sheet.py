import ttl_mm.registry  # noqa: F401  isort: skip
import re

import numpy as np
import pytest
from mmengine.dataset import ConcatDataset, RepeatDataset
from mmengine.registry import init_default_scope
from mmpretrain.datasets import CustomDataset
from torch.utils.data import DataLoader, Dataset, SequentialSampler

from tests.helpers.images import make_folder
from tests.helpers.paths import ROOT
from ttl_mm.datasets import Fraction, ImageFolder
from ttl_mm.datasets.part import Part
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.train_loader import train_loader
from ttl_mm.datasets.train_samples import TrainSamples
from ttl_mm.datasets.view_sheet import view_sheet, views_of
from ttl_mm.errors import UserError

OURS = [
    dict(type='ttl_mm.RandomViews', views=[dict(size=20), dict(size=12)]),
    dict(type='PackInputs'),
]
STOCK = [
    dict(type='LoadImageFromFile'),
    dict(type='RandomResizedCrop', scale=20),
    dict(type='ColorJitter', brightness=0.4, hue=0.1),
    dict(type='PackInputs'),
]


@pytest.fixture(scope='module')
def root(tmp_path_factory):
    init_default_scope('mmpretrain')
    return str(make_folder(tmp_path_factory.mktemp('images'), 'ab', count=4, size=30))


def own_dataset(root: str) -> Dataset:
    """The example of docs/data.md."""
    text = (ROOT / 'docs/data.md').read_text()
    (example,) = re.findall(r'```python\n([^`]*class MyImages.*?)```', text, re.S)
    names: dict = {}
    exec(example, names)
    return names['MyImages'](f'{root}/a', OURS)


def mmpretrain(root: str, pipeline=OURS) -> Dataset:
    return CustomDataset(data_root=root, pipeline=pipeline)


DATASETS = {
    'folder': lambda root: ImageFolder(root, OURS),
    'folder, stock transforms': lambda root: ImageFolder(root, STOCK),
    'part': lambda root: Part(ImageFolder(root, OURS), np.array([6, 1, 4])),
    'part, stock transforms': lambda root: Part(ImageFolder(root, STOCK), np.array([6, 1, 4])),
    'fraction': lambda root: Fraction(ImageFolder(root, OURS, with_label=True), 0.5, seed=1),
    'mmpretrain': lambda root: mmpretrain(root),
    'mmpretrain, stock transforms': lambda root: mmpretrain(root, STOCK),
    'concatenated': lambda root: ConcatDataset([mmpretrain(root), mmpretrain(root)]),
    'repeated': lambda root: RepeatDataset(mmpretrain(root), 2),
    'own': own_dataset,
}


def training_views(dataset: Dataset, seed: int, epochs: int) -> list[list[np.ndarray]]:
    """All views that the loader of a run yields, as (H, W, 3), by sample."""
    stock = DataLoader(dataset, 1, sampler=SequentialSampler(dataset), collate_fn=lambda x: x[0])
    loader = train_loader(stock, seed)
    views: list[list[np.ndarray]] = [[] for _ in range(len(dataset))]
    for epoch in range(epochs):
        loader.batch_sampler.set_position(epoch, 0)
        for of_sample, batch in zip(views, loader):
            inputs = batch.data['inputs']
            inputs = inputs if isinstance(inputs, list) else [inputs]
            of_sample += [view.permute(1, 2, 0).numpy() for view in inputs]
    return views


def contains(sheet: np.ndarray, view: np.ndarray) -> bool:
    h, w = view.shape[:2]
    corners = np.argwhere((sheet == view[0, 0]).all(axis=2))
    return any(np.array_equal(sheet[y : y + h, x : x + w], view) for y, x in corners)


@pytest.mark.parametrize('kind', DATASETS)
def test_the_sheet_shows_the_views_of_training(root, kind):
    expected = training_views(DATASETS[kind](root), seed=7, epochs=2)
    sheet = view_sheet(DATASETS[kind](root), images=len(expected), epochs=2, seed=7, height=20)
    for views in expected:
        assert len(views) == 4 or 'stock' in kind
        assert all(contains(sheet, view) for view in views)


def test_rgb_views_few_images_and_hidden_ones(root):
    samples, index = TrainSamples(ImageFolder(root, OURS)), SampleIndex(0)
    bgr, turned = views_of(samples, index)[0], views_of(samples, index, rgb=True)[0]
    np.testing.assert_array_equal(turned, bgr[..., ::-1])
    few, many = (view_sheet(ImageFolder(root, OURS), images, epochs=1) for images in (8, 50))
    assert few.shape == many.shape

    class Hidden(Dataset):
        def __len__(self):
            return 1

    with pytest.raises(UserError, match='Hidden has no get_data_info'):
        view_sheet(Hidden())
