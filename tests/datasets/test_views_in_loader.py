"""The views of a run: the same for any number of workers and after a resume, never repeated."""

from unittest import mock

import ttl_mm.registry  # noqa: F401  isort: skip
import pytest
import torch
from mmengine.dataset import default_collate
from mmengine.registry import init_default_scope
from torch.utils.data import DataLoader

from tests.helpers.images import encode, natural
from ttl_mm.datasets import EpochSampler, ImageFolder
from ttl_mm.datasets.train_loader import train_loader

PIPELINE = [
    dict(
        type='ttl_mm.RandomViews',
        views=[dict(size=24), dict(size=24, blur=0.1, solarize=0.2), dict(size=12, num=2)],
    ),
    dict(type='PackInputs'),
]


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp('images')
    for i in range(12):
        (root / f'{i}.jpg').write_bytes(encode(natural(48, 64, seed=i)))
    init_default_scope('mmpretrain')
    return ImageFolder(str(root), PIPELINE)


def batches(folder, workers=0, epoch=0, start=0, rank=0, world_size=1) -> list[dict]:
    with mock.patch('ttl_mm.datasets.sampler.get_dist_info', return_value=(rank, world_size)):
        sampler = EpochSampler(folder, seed=5)
    loader = train_loader(
        DataLoader(
            folder, batch_size=3, sampler=sampler, num_workers=workers, collate_fn=default_collate
        ),
        seed=5,
    )
    loader.batch_sampler.set_position(epoch, start)
    return [batch.data for batch in loader]


def views_by_image(found: list[dict]) -> dict[str, list[torch.Tensor]]:
    return {
        sample.img_path: [views[i] for views in batch['inputs']]
        for batch in found
        for i, sample in enumerate(batch['data_samples'])
    }


def assert_same(first: list[dict], second: list[dict]) -> None:
    assert len(first) == len(second) > 0
    for one, other in zip(first, second):
        assert len(one['inputs']) == 4
        assert all(torch.equal(a, b) for a, b in zip(one['inputs'], other['inputs']))


@pytest.mark.parametrize('workers', [1, 2])
def test_workers_change_nothing(folder, workers):
    assert_same(batches(folder), batches(folder, workers))


@pytest.mark.parametrize('workers', [0, 2])
def test_a_resume_continues_in_the_middle_of_an_epoch(folder, workers):
    assert_same(batches(folder, epoch=1)[2:], batches(folder, workers, epoch=1, start=2))


def test_every_epoch_has_its_own_views(folder):
    first, second = (views_by_image(batches(folder, epoch=epoch)) for epoch in (0, 1))
    assert first.keys() == second.keys()
    for path, views in first.items():
        assert not any(torch.equal(a, b) for a, b in zip(views, second[path]))


def test_ranks_share_the_images_and_the_draws_of_one_process(folder):
    whole = views_by_image(batches(folder))
    parts = [views_by_image(batches(folder, rank=rank, world_size=2)) for rank in (0, 1)]
    assert parts[0].keys() | parts[1].keys() == whole.keys()
    assert not parts[0].keys() & parts[1].keys()
    for path, views in (parts[0] | parts[1]).items():
        assert all(torch.equal(a, b) for a, b in zip(views, whole[path]))
