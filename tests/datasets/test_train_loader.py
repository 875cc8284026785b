"""What the model sees depends on seed, epoch and index, and on nothing else."""

import ttl_mm.registry  # noqa: F401  isort: skip

import multiprocessing
import random
import subprocess
from unittest import mock

import numpy as np
import pytest
import torch
from mmdet.datasets.samplers import AspectRatioBatchSampler
from mmengine.dataset import default_collate
from mmengine.registry import init_default_scope
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler

from tests.helpers.images import write_images
from ttl_mm.datasets import EpochSampler, ImageFolder
from ttl_mm.datasets.train_loader import EpochBatches, train_loader

VIEWS = [
    dict(size=24), dict(size=24, blur=0.1, solarize=0.2),
    dict(size=12, num=2, later_sizes=[(2, 16)]),
]  # fmt: skip
PIPELINE = [dict(type='ttl_mm.RandomViews', views=VIEWS), dict(type='PackInputs')]


class Draws(Dataset):
    """A stock dataset: draws from all global generators."""

    def __len__(self):
        return 23

    def __getitem__(self, index):
        draws = [int(index), random.random(), np.random.rand(), torch.rand(1).item()]
        return torch.tensor(draws, dtype=torch.float64)


def draws(workers=0, epoch=0, taken=0, dataset=None, sampler=EpochSampler):
    dataset = dataset or Draws()
    made = sampler(dataset) if sampler is SequentialSampler else sampler(dataset, seed=1)
    stock = DataLoader(dataset, batch_size=4, sampler=made, num_workers=workers, drop_last=True)
    loader = train_loader(stock, seed=1)
    assert loader.batch_sampler.set_position(epoch, taken) == (23 - taken) // 4
    return torch.stack([batch.data for batch in loader])


@pytest.mark.parametrize('sampler', [EpochSampler, SequentialSampler])
def test_workers_and_a_resume_change_nothing(sampler):
    whole = draws(epoch=2, sampler=sampler)
    assert torch.equal(draws(2, epoch=2, sampler=sampler), whole)
    assert torch.equal(draws(2, epoch=2, taken=12, sampler=sampler), whole[3:])


def test_epochs_have_their_own_draws_and_a_start_reads_nothing_before_it():
    first, second = draws(sampler=SequentialSampler), draws(epoch=1, sampler=SequentialSampler)
    assert (first[..., 0] == second[..., 0]).all()
    assert (first[..., 1:] != second[..., 1:]).all()
    read = []

    class Counting(Draws):
        def __getitem__(self, index):
            read.append(int(index))
            return super().__getitem__(index)

    draws(taken=16, dataset=Counting())
    assert len(read) == 4


class Sizes:
    """Images of which every third is upright."""

    def __len__(self) -> int:
        return 23

    def get_data_info(self, index: int) -> dict:
        return dict(width=10, height=20 if index % 3 == 0 else 5)


def test_batch_samplers_of_others_continue_where_they_were():
    dataset = Draws()
    stock = DataLoader(dataset, batch_sampler=BatchSampler(SequentialSampler(dataset), 3, False))
    loader = train_loader(stock, seed=1)
    assert loader.batch_sampler.set_position(0, 18) == 2
    assert [batch.data[:, 0].tolist() for batch in loader] == [[18, 19, 20], [21, 22]]
    assert [loader.batch_sampler.taken_after(steps) for steps in (0, 1)] == [18, 21]
    assert len(list(loader)) == 8  # the position counts once

    def grouped(start: int) -> list:
        sampler = AspectRatioBatchSampler(EpochSampler(Sizes(), seed=3), batch_size=2)
        batches = EpochBatches(sampler, seed=3)
        batches.set_position(epoch=2, taken=2 * start)
        return [[int(index) for index in batch] for batch in batches]

    whole = grouped(0)
    assert sorted(index for batch in whole for index in batch) == list(range(23))
    for start in (1, 5, 10):
        assert grouped(start) == whole[start:]


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    init_default_scope('mmpretrain')
    return ImageFolder(str(write_images(tmp_path_factory.mktemp('images'), 12, 48, 64)), PIPELINE)


def batches(folder, workers=0, epoch=0, start=0, rank=0, world_size=1) -> list[dict]:
    with mock.patch('ttl_mm.datasets.sampler.get_dist_info', return_value=(rank, world_size)):
        sampler = EpochSampler(folder, seed=5)
    stock = DataLoader(folder, 3, sampler=sampler, num_workers=workers, collate_fn=default_collate)
    loader = train_loader(stock, seed=5)
    loader.batch_sampler.set_position(epoch, 3 * world_size * start)
    return [batch.data for batch in loader]


def views_by_image(found: list[dict]) -> dict[str, list[torch.Tensor]]:
    return {
        sample.img_path: [views[i] for views in batch['inputs']]
        for batch in found
        for i, sample in enumerate(batch['data_samples'])
    }


def test_views_do_not_depend_on_workers_or_a_resume(folder):
    for epoch, sizes in ((1, [24, 24, 12, 12]), (2, [24, 24, 16, 16])):
        whole = batches(folder, epoch=epoch)
        assert all([x.shape[-1] for x in batch['inputs']] == sizes for batch in whole)
        for workers, start in [(1, 0), (2, 0), (0, 2), (2, 2)]:
            again = batches(folder, workers, epoch=epoch, start=start)
            assert len(again) == len(whole) - start
            for one, other in zip(whole[start:], again):
                assert len(one['inputs']) == 4
                assert all(torch.equal(a, b) for a, b in zip(one['inputs'], other['inputs']))


def test_epochs_have_their_own_views_which_ranks_share(folder):
    first, second = (views_by_image(batches(folder, epoch=epoch)) for epoch in (0, 1))
    assert first.keys() == second.keys()
    for path, views in first.items():
        assert not any(torch.equal(a, b) for a, b in zip(views, second[path]))
    parts = [views_by_image(batches(folder, rank=rank, world_size=2)) for rank in (0, 1)]
    assert parts[0].keys() | parts[1].keys() == first.keys()
    assert not parts[0].keys() & parts[1].keys()
    for path, views in (parts[0] | parts[1]).items():
        assert all(torch.equal(a, b) for a, b in zip(views, first[path]))


def test_bad_images_are_replaced_and_reported(tmp_path):
    write_images(tmp_path, 6, 8, 8, bad=(2, 4))
    load = {'type': 'LoadImageFromFile'}
    dataset = ImageFolder(str(tmp_path), [load, lambda x: torch.tensor(x['sample_idx'])])
    for workers in (0, 2):
        stock = DataLoader(dataset, 3, sampler=EpochSampler(dataset, seed=0), num_workers=workers)
        found = list(train_loader(stock, seed=0))
        used = torch.cat([batch.data for batch in found]).tolist()
        assert (len(used), set(used)) == (6, {0, 1, 3, 5})
        skipped = {skip.path for batch in found for skip in batch.skipped}
        assert skipped == {f'{tmp_path}/2.jpg', f'{tmp_path}/4.jpg'}


def test_workers_end_when_their_loader_does_and_not_when_others_ask():
    dataset = Draws()
    sampler = EpochSampler(dataset, seed=1)
    stock = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2)
    batches = iter(train_loader(stock, seed=1))
    workers = [child.pid for child in multiprocessing.active_children()]
    for name in ('-TERM', '-USR1'):  # from another process, while they still start
        subprocess.run(['kill', name, *map(str, workers)], check=True)
    assert len(list(batches)) == 6
    batches = iter(train_loader(stock, seed=1))
    next(batches)
    for child in multiprocessing.active_children():
        child.terminate()  # as the loader does
        child.join(5)
        assert child.exitcode == 0
