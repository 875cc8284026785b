import random

import numpy as np
import pytest
import torch
from mmengine.dataset import BaseDataset, ConcatDataset

from tests.helpers.images import write_images
from ttl_mm.datasets import ImageFolder
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.train_samples import MAX_TRIES, TrainSamples, seeded_for
from ttl_mm.errors import UserError

PIPELINE = [{'type': 'LoadImageFromFile'}, lambda results: torch.tensor(results['sample_idx'])]


class Stock(BaseDataset):
    """Five samples; each is the first number of its generator."""

    def __init__(self):
        super().__init__(pipeline=[lambda results: results['rng'].random()])

    def load_data_list(self):
        return [{'number': i} for i in range(5)]


@pytest.fixture
def folder(tmp_path):
    return write_images(tmp_path, 6, 8, 8, bad=(2, 4))


def test_pipelines_of_other_datasets_get_the_generator_however_wrapped():
    index = SampleIndex(7, epoch=2, seed=1)  # sample 2 of the second dataset
    samples = TrainSamples(ConcatDataset([Stock(), Stock()]))
    assert samples[index] == np.random.default_rng((1, 2, 7)).random()
    dataset = Stock()
    first, second = TrainSamples(dataset), TrainSamples(dataset)
    for index in (SampleIndex(3), SampleIndex(4, epoch=1)):
        assert first[index] == second[index] == index.rng().random()
    with pytest.raises(KeyError, match='rng'):  # nothing is left of the last sample
        dataset[0]


def test_the_generators_of_the_main_process_go_on_undisturbed():
    generators = random.random, np.random.rand, lambda: torch.rand(1).item()
    index = SampleIndex(3, epoch=1, seed=2)

    def seed():
        random.seed(0), np.random.seed(0), torch.manual_seed(0)

    seed()
    expected = [draw() for draw in generators]
    seed()
    with pytest.raises(RuntimeError), seeded_for(index):
        raise RuntimeError
    assert [draw() for draw in generators] == expected
    with seeded_for(index):
        inside = [draw() for draw in generators]
    with seeded_for(index):
        assert [draw() for draw in generators] == inside != expected


def test_bad_images_are_replaced_by_the_same_ones_every_time(folder):
    samples = TrainSamples(ImageFolder(str(folder), pipeline=PIPELINE))
    index = SampleIndex(2, epoch=1, seed=0)
    assert samples[index] == samples[index]
    replacements = {int(samples[SampleIndex(2, epoch, 0)]) for epoch in range(20)}
    assert replacements == {0, 1, 3, 5}  # not always the same one, which would get twice the weight
    assert {skip.path for skip in samples.skipped} == {f'{folder}/2.jpg', f'{folder}/4.jpg'}

    class Foreign(BaseDataset):
        def load_data_list(self):
            return [{'img_path': str(folder / f'{i}.jpg')} for i in range(6)]

    samples = TrainSamples(Foreign(pipeline=PIPELINE))
    assert int(samples[SampleIndex(4)]) in (0, 1, 3, 5)
    assert samples.skipped[0].path == str(folder / '4.jpg')


def test_a_disk_that_is_away_for_a_moment_changes_nothing(folder, monkeypatch):
    samples = TrainSamples(ImageFolder(str(folder), pipeline=PIPELINE))
    away, waited = folder.with_name('away'), []

    def wait(seconds):
        waited.append(seconds)
        if len(waited) == 3:
            away.rename(folder)

    monkeypatch.setattr('time.sleep', wait)
    folder.rename(away)
    assert samples[SampleIndex(1)] == 1
    assert (waited, samples.skipped) == ([0.1, 0.2, 0.5], [])
    folder.rename(away)
    monkeypatch.setattr('time.sleep', waited.append)
    with pytest.raises(UserError, match=r'No such file.*, for a minute: .* is mounted'):
        samples[SampleIndex(1)]
    assert sum(waited[3:]) > 55


def test_nothing_but_bad_images_is_an_error_and_a_fault_of_the_code_its_own(folder):
    samples = TrainSamples(ImageFolder(str(folder), pipeline=[lambda results: 1 / 0]))
    with pytest.raises(ZeroDivisionError):
        samples[SampleIndex(0)]
    for i in range(6):
        (folder / f'{i}.jpg').write_bytes(b'')
    samples = TrainSamples(ImageFolder(str(folder), pipeline=PIPELINE))
    with pytest.raises(UserError, match=f'{MAX_TRIES} images in a row'):
        samples[SampleIndex(0)]
