"""What the model sees depends on seed, epoch and index, and on nothing else."""

import random

import numpy as np
import pytest
import torch
from mmengine.dataset import BaseDataset
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler

from tests.helpers.images import encode, natural
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.sampler import EpochSampler
from ttl_mm.datasets.seeding import seeded_for
from ttl_mm.datasets.train_loader import train_loader
from ttl_mm.datasets.train_samples import MAX_TRIES, TrainSamples
from ttl_mm.errors import UserError


class Draws(Dataset):
    """A stock dataset: draws from all global generators."""

    def __len__(self):
        return 23

    def __getitem__(self, index):
        return torch.tensor(
            [int(index), random.random(), np.random.rand(), torch.rand(1).item()],
            dtype=torch.float64,
        )


def batches(workers=0, epoch=0, start=0, dataset=None, sampler=EpochSampler):
    dataset = dataset or Draws()
    made = sampler(dataset) if sampler is SequentialSampler else sampler(dataset, seed=1)
    stock = DataLoader(dataset, batch_size=4, sampler=made, num_workers=workers, drop_last=True)
    loader = train_loader(stock, seed=1)
    loader.batch_sampler.set_position(epoch, start)
    return torch.stack([batch.data for batch in loader])


@pytest.mark.parametrize('sampler', [EpochSampler, SequentialSampler])
def test_workers_do_not_matter(sampler):
    assert torch.equal(batches(0, sampler=sampler), batches(2, sampler=sampler))


@pytest.mark.parametrize('sampler', [EpochSampler, SequentialSampler])
def test_continues_in_the_middle_of_an_epoch(sampler):
    whole = batches(epoch=2, sampler=sampler)
    assert torch.equal(batches(2, epoch=2, start=3, sampler=sampler), whole[3:])


def test_epochs_have_their_own_draws():
    first, second = batches(sampler=SequentialSampler), batches(epoch=1, sampler=SequentialSampler)
    assert (first[..., 0] == second[..., 0]).all()
    assert (first[..., 1:] != second[..., 1:]).all()


def test_the_generators_of_the_main_process_go_on_undisturbed():
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    expected = random.random(), np.random.rand(), torch.rand(1).item()
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    batches()
    assert (random.random(), np.random.rand(), torch.rand(1).item()) == expected


def test_nothing_is_read_to_get_to_the_place():
    read = []

    class Counting(Draws):
        def __getitem__(self, index):
            read.append(int(index))
            return super().__getitem__(index)

    batches(start=4, dataset=Counting())
    assert len(read) == 4


def test_batch_samplers_of_others_work():
    dataset = Draws()
    stock = DataLoader(dataset, batch_sampler=BatchSampler(SequentialSampler(dataset), 3, False))
    loader = train_loader(stock, seed=1)
    loader.batch_sampler.set_position(0, 6)
    assert [batch.data[:, 0].tolist() for batch in loader] == [[18, 19, 20], [21, 22]]


def test_pipelines_of_other_datasets_get_the_generator():
    class Stock(BaseDataset):
        def load_data_list(self):
            return [{'number': i} for i in range(5)]

    stock = Stock(pipeline=[lambda results: results['rng'].random()])
    index = SampleIndex(3, epoch=2, seed=1)
    assert TrainSamples(stock)[index] == index.rng().random()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Six images, of which 2 and 4 are bad."""
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    (tmp_path / 'images').mkdir()
    for i in range(6):
        content = encode(natural(8, 8, seed=i)) if i not in (2, 4) else b'<html>'
        (tmp_path / 'images' / f'{i}.jpg').write_bytes(content)
    return tmp_path / 'images'


PIPELINE = [{'type': 'LoadImageFromFile'}, lambda results: torch.tensor(results['sample_idx'])]


@pytest.mark.parametrize('workers', [0, 2])
def test_bad_images_are_replaced_and_reported(folder, workers):
    dataset = ImageFolder(str(folder), pipeline=PIPELINE)
    stock = DataLoader(dataset, 3, sampler=EpochSampler(dataset, seed=0), num_workers=workers)
    found = list(train_loader(stock, seed=0))
    used = torch.cat([batch.data for batch in found]).tolist()
    assert len(used) == 6
    assert {0, 1, 3, 5} == set(used)
    skipped = {skip.path for batch in found for skip in batch.skipped}
    assert skipped == {str(folder / '2.jpg'), str(folder / '4.jpg')}


def test_the_replacement_is_the_same_every_time(folder):
    samples = TrainSamples(ImageFolder(str(folder), pipeline=PIPELINE))
    index = SampleIndex(2, epoch=1, seed=0)
    assert samples[index] == samples[index]
    replacements = {int(samples[SampleIndex(2, epoch, 0)]) for epoch in range(20)}
    assert len(replacements) > 1  # not always the same neighbour, which would get twice the weight


def test_nothing_but_bad_images_is_an_error(folder):
    for i in range(6):
        (folder / f'{i}.jpg').write_bytes(b'')
    samples = TrainSamples(ImageFolder(str(folder), pipeline=PIPELINE))
    with pytest.raises(UserError, match=f'{MAX_TRIES} images in a row'):
        samples[SampleIndex(0)]


def test_a_fault_of_the_code_is_no_bad_image(folder):
    samples = TrainSamples(ImageFolder(str(folder), pipeline=[lambda results: 1 / 0]))
    with pytest.raises(ZeroDivisionError):
        samples[SampleIndex(0)]


def test_seeding_ends_with_the_sample():
    random.seed(4)
    expected = random.random()
    random.seed(4)
    with pytest.raises(RuntimeError), seeded_for(SampleIndex(0)):
        raise RuntimeError
    assert random.random() == expected
