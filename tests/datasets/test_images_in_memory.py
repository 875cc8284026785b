"""Images in memory: read once, the same batches in every process, bad files replaced."""

import ttl_mm.registry  # noqa: F401  isort: skip

import pickle

import numpy as np
import pytest
import torch
from mmengine.dataset import BaseDataset
from mmengine.registry import init_default_scope
from torch.utils.data import DataLoader

from tests.helpers.images import make_folder, write_images
from ttl_mm.datasets import EpochSampler, ImageFolder, RandomViews
from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.images_in_memory import ImagesInMemory, memory_of, step_in_memory
from ttl_mm.datasets.part import Fraction
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.train_loader import train_loader
from ttl_mm.datasets.views import resized
from ttl_mm.errors import UserError

VIEWS = [
    dict(size=16, num=2, later_sizes=[(1, 24)]),
    dict(size=8, blur=0.0, later_sizes=[(1, 12)]),
]


def loader_of(dataset, workers=0, batch=4):
    plain = DataLoader(
        dataset, batch, sampler=EpochSampler(dataset, seed=1), num_workers=workers, drop_last=True
    )
    return train_loader(plain, seed=1)


def batches(dataset, epoch=0, taken=0, workers=0):
    loader = loader_of(dataset, workers)
    loader.batch_sampler.set_position(epoch, taken)
    return list(loader)


def images_of(folder, views=VIEWS, in_memory=True, **options):
    step = dict(type='ttl_mm.RandomViews', views=views, in_memory=in_memory)
    return ImageFolder(str(folder), [step, dict(type='PackInputs')], **options)


def memory_for(dataset):
    return ImagesInMemory(dataset, step_in_memory(dataset))


@pytest.fixture(autouse=True)
def scope():
    init_default_scope('mmpretrain')


@pytest.fixture
def folder(tmp_path):
    return write_images(tmp_path / 'images', 13, 30, 40)


def test_batches_do_not_depend_on_workers_resume_or_what_was_read(folder):
    dataset = images_of(folder)
    whole = batches(dataset, epoch=1)
    assert [tuple(v.shape) for v in whole[0].data['inputs']] == [
        (4, 3, 24, 24), (4, 3, 24, 24), (4, 3, 12, 12),
    ]  # fmt: skip
    assert not torch.equal(whole[0].data['inputs'][0], whole[0].data['inputs'][1])
    for workers in (0, 2):
        again = batches(images_of(folder), epoch=1, taken=4, workers=workers)
        assert len(again) == 2
        for one, other in zip(whole[1:], again):
            for a, b in zip(one.data['inputs'], other.data['inputs']):
                assert torch.equal(a, b)
    assert batches(dataset)[0].data['inputs'][0].shape[-1] == 16  # of epoch 0


def test_ranks_together_make_the_batch_of_one(folder):
    dataset = images_of(folder)
    whole, other = loader_of(dataset), loader_of(dataset, batch=2)
    assert other.batch_sampler.take_ranks(2, [0, 1])
    order, joined = (next(iter(one.batch_sampler)) for one in (whole, other))
    assert sorted(joined) == sorted(order)
    parts = []
    for rank in (0, 1):
        loader = loader_of(dataset, batch=2)
        assert loader.batch_sampler.take_ranks(2, [rank])
        parts.append(next(iter(loader)).data['inputs'])
    places = [order.index(i) for i in joined]
    for view, *of_ranks in zip(next(iter(whole)).data['inputs'], *parts):
        assert torch.allclose(torch.cat(of_ranks), view[places], atol=1e-3)


def test_an_image_is_read_once_and_shared_with_workers(folder):
    loader = loader_of(images_of(folder), workers=2)
    memory = loader.dataset.memory
    assert memory.edge == 36
    list(loader)  # the children read
    held = [i for i in range(13) if memory.holds(i)]
    assert len(held) == 12
    path = memory.dataset.get_data_info(held[0])['img_path']
    expected = resized(decode_image(path), (36, 36)).transpose(2, 0, 1)
    assert np.array_equal(memory.images[held[0]].numpy(), expected)
    assert memory.sizes[held[0]].tolist() == [30, 40]
    for i in held:  # no file is read again
        open(memory.dataset.get_data_info(i)['img_path'], 'w').close()
    assert memory.take(held[0]) == held[0]


def test_a_bad_image_is_replaced_and_named(tmp_path):
    folder = write_images(tmp_path / 'images', 8, 20, 20, bad=(3,))
    found = batches(images_of(folder))
    assert [len(batch.data['inputs'][0]) for batch in found] == [4, 4]
    (skipped,) = [s for batch in found for s in batch.skipped]
    assert skipped.path.endswith('3.jpg')
    again = batches(images_of(folder))
    for one, other in zip(found, again):
        assert torch.equal(one.data['inputs'][0], other.data['inputs'][0])


def test_batches_have_the_labels_that_samples_have(tmp_path):
    folder = make_folder(tmp_path / 'classes')
    indices = [SampleIndex(i) for i in (0, 7, 17)]
    for with_label, expected in ((True, [0, 1, 2]), (False, None)):
        memory = memory_for(images_of(folder, with_label=with_label))
        found = memory.batch_of([memory.take(i) for i in indices], indices)['data_samples']
        assert (found and [s.gt_label.item() for s in found]) == expected


def test_the_step_is_found_through_parts_and_other_users_get_single_samples(tmp_path):
    whole = images_of(make_folder(tmp_path / 'classes'), with_label=True)
    part = Fraction(whole, 0.5)
    assert step_in_memory(part).edge == 36
    assert step_in_memory(images_of(tmp_path / 'classes', in_memory=False)) is None
    (batch, *_) = batches(part)
    assert len(batch.data['inputs'][0]) == 4
    one = loader_of(part).dataset[SampleIndex(2)]['inputs']  # as the judge takes it
    assert [tuple(view.shape) for view in one] == [(3, 16, 16), (3, 16, 16), (3, 8, 8)]


class Reds(BaseDataset):
    """Two RGB images in memory."""

    def load_data_list(self):
        return [{'img': np.full((20, 20, 3), [200, 0, 0], np.uint8)}] * 2


@pytest.mark.parametrize('rgb', [True, False])
def test_images_of_a_dataset_in_memory_keep_their_channels(rgb):
    view = dict(size=8, jitter=0.0, grayscale=0.0, blur=0.0)
    memory = ImagesInMemory(Reds(), RandomViews([view], rgb=rgb, in_memory=12))
    index = SampleIndex(0)
    (found,) = memory.batch_of([memory.take(index)], [index])['inputs']
    assert found.mean(dim=(0, 2, 3)).tolist() == pytest.approx([200, 0, 0], abs=0.01)


def test_bands_are_refused_and_the_memory_is_counted(folder):
    bands = dict(low=[0.0] * 3, high=[1.0] * 3)
    with pytest.raises(UserError, match='in_memory takes 8-bit RGB'):
        RandomViews(VIEWS, bands=bands, in_memory=True)
    memory = memory_for(images_of(folder))
    assert memory_of(13, 36) == memory.images.nbytes + memory.sizes.nbytes


def test_a_process_that_is_not_forked_reads_anew(folder):
    memory = memory_for(images_of(folder))
    memory.take(2)
    copy = pickle.loads(pickle.dumps(memory))
    assert memory.holds(2)
    assert not copy.holds(2)
    assert np.array_equal(copy.images[copy.take(2)], memory.images[2])
