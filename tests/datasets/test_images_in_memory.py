"""Images in memory: read once, the same batches in every process, bad files replaced."""

import ttl_mm.registry  # noqa: F401  isort: skip

import pickle

import numpy as np
import pytest
import torch
from mmengine.dataset import BaseDataset
from torch.utils.data import DataLoader

from tests.helpers.images import make_folder, write_images
from ttl_mm.datasets import EpochSampler, ImageFolder, ImagesInMemory
from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.datasets.train_loader import train_loader
from ttl_mm.datasets.views import resized
from ttl_mm.errors import UserError
from ttl_mm.registry import DATASETS

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


@pytest.fixture
def folder(tmp_path):
    return write_images(tmp_path / 'images', 13, 30, 40)


def test_batches_do_not_depend_on_workers_resume_or_what_was_read(folder):
    config = dict(type='ttl_mm.ImagesInMemory', views=VIEWS,
                  dataset=dict(type='ttl_mm.ImageFolder', data_root=str(folder)))  # fmt: skip
    dataset = DATASETS.build(config)
    whole = batches(dataset, epoch=1)
    assert [tuple(v.shape) for v in whole[0].data['inputs']] == [
        (4, 3, 24, 24), (4, 3, 24, 24), (4, 3, 12, 12),
    ]  # fmt: skip
    assert not torch.equal(whole[0].data['inputs'][0], whole[0].data['inputs'][1])
    for workers in (0, 2):
        again = batches(DATASETS.build(config), epoch=1, taken=4, workers=workers)
        assert len(again) == 2
        for one, other in zip(whole[1:], again):
            for a, b in zip(one.data['inputs'], other.data['inputs']):
                assert torch.equal(a, b)
    assert batches(dataset)[0].data['inputs'][0].shape[-1] == 16  # of epoch 0


def test_an_image_is_read_once_and_shared_with_workers(folder):
    dataset = ImagesInMemory(ImageFolder(str(folder)), VIEWS)
    assert dataset.edge == 36
    batches(dataset, workers=2)  # the children read
    held = [i for i in range(13) if dataset.holds(i)]
    assert len(held) == 12
    path = dataset.get_data_info(held[0])['img_path']
    expected = resized(decode_image(path), (36, 36)).transpose(2, 0, 1)
    assert np.array_equal(dataset.images[held[0]].numpy(), expected)
    assert dataset.sizes[held[0]].tolist() == [30, 40]
    for i in held:  # no file is read again
        open(dataset.get_data_info(i)['img_path'], 'w').close()
    assert dataset[held[0]] == held[0]


def test_a_bad_image_is_replaced_and_named(tmp_path):
    folder = write_images(tmp_path / 'images', 8, 20, 20, bad=(3,))
    found = batches(ImagesInMemory(ImageFolder(str(folder)), VIEWS))
    assert [len(batch.data['inputs'][0]) for batch in found] == [4, 4]
    (skipped,) = [s for batch in found for s in batch.skipped]
    assert skipped.path.endswith('3.jpg')
    again = batches(ImagesInMemory(ImageFolder(str(folder)), VIEWS))
    for one, other in zip(found, again):
        assert torch.equal(one.data['inputs'][0], other.data['inputs'][0])


def test_labels_on_request(tmp_path):
    folder = make_folder(tmp_path / 'classes')
    inner = ImageFolder(str(folder), with_label=True)
    plain, labeled = (ImagesInMemory(inner, VIEWS, with_label=w) for w in (False, True))
    indices = [SampleIndex(i) for i in (0, 7, 17)]
    rows = [labeled[i] for i in indices]
    samples = labeled.batch_of(rows, indices)['data_samples']
    assert [s.gt_label.item() for s in samples] == [0, 1, 2]
    assert plain.get_gt_labels()[17] == 2
    [plain[i] for i in indices]
    assert plain.batch_of(rows, indices)['data_samples'] is None


class Reds(BaseDataset):
    """Two RGB images in memory."""

    def load_data_list(self):
        return [{'img': np.full((20, 20, 3), [200, 0, 0], np.uint8)}] * 2


@pytest.mark.parametrize('rgb', [True, False])
def test_images_of_a_dataset_in_memory_keep_their_channels(rgb):
    view = dict(size=8, jitter=0.0, grayscale=0.0, blur=0.0)
    dataset = ImagesInMemory(Reds(), [view], rgb=rgb)
    index = SampleIndex(0)
    (found,) = dataset.batch_of([dataset[index]], [index])['inputs']
    assert found.mean(dim=(0, 2, 3)).tolist() == pytest.approx([200, 0, 0], abs=0.01)


def test_too_much_memory_and_no_views_are_refused(folder):
    inner = ImageFolder(str(folder))
    with pytest.raises(UserError, match=r'13 images at 36 pixels take 0\.0 GB.*max_gb=1e-05'):
        ImagesInMemory(inner, VIEWS, max_gb=1e-5)
    with pytest.raises(UserError, match='at least one view'):
        ImagesInMemory(inner, [])


def test_a_process_that_is_not_forked_reads_anew(folder):
    dataset = ImagesInMemory(ImageFolder(str(folder)), VIEWS)
    dataset[2]
    copy = pickle.loads(pickle.dumps(dataset))
    assert dataset.holds(2)
    assert not copy.holds(2)
    assert np.array_equal(copy.images[copy[2]], dataset.images[2])
