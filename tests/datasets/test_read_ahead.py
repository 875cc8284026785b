"""The archives of a window and of what follows are asked for when its first image is."""

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.store import IMAGES, SHARDS, Store, write_shards
from ttl_mm.datasets import EpochSampler, ImageFolder, read_ahead
from ttl_mm.datasets.train_loader import EpochBatches
from ttl_mm.errors import UserError
from ttl_mm.files.archives.write_tar import write_tar
from ttl_mm.files.stores.cache import remote_file
from ttl_mm.files.stores.url import url_of

SHARD = 20480  # bytes of each shard on the disk
EACH = SHARDS * IMAGES


class Asked:
    """In the place of a prefetcher: keeps what it is asked for."""

    lists: list[list[list[str]]]

    def __init__(self) -> None:
        Asked.lists = []

    def want(self, groups) -> None:
        Asked.lists.append([[path.name for path in group] for group in groups])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_shards(tmp_path / 'served' / 'set')
    monkeypatch.setenv('TTL_STORE_CACHE', str(tmp_path / 'cache'))
    monkeypatch.setattr(read_ahead, 'Prefetcher', Asked)
    Asked.lists = []
    with Store(tmp_path / 'served') as store:
        yield ImageFolder(f'{store.url}/set')


def batches(sampler, epoch: int = 0, taken: int = 0) -> list:
    from torch.utils.data import BatchSampler

    made = EpochBatches(BatchSampler(sampler, 2, False), seed=3)
    made.set_position(epoch, taken)
    return list(made)


def shard_of(folder, index: int) -> str:
    return Path(folder.names[index]).parts[0]


def test_each_window_is_asked_for_with_those_that_follow(folder):
    sampler = EpochSampler(folder, seed=3, window=2 * IMAGES)
    order = batches(sampler, 1)
    shards = [shard_of(folder, image) for batch in order for image in batch]
    windows = [set(shards[:10]), set(shards[10:])]
    assert [len(window) for window in windows] == [2, 2]
    following = [shard_of(folder, i) for batch in batches(sampler, 2) for i in batch]
    after = [set(following[:10]), set(following[10:])]
    batches(sampler, 1)
    assert [list(map(set, groups)) for groups in Asked.lists] == [
        [*windows, *after], [windows[1], *after]
    ]  # fmt: skip


def test_in_the_middle_of_an_epoch_and_on_the_first_process_of_a_machine(folder, monkeypatch):
    sampler = EpochSampler(folder, seed=3, window=IMAGES)
    batches(sampler, 1, taken=12)
    assert [len(groups) for groups in Asked.lists] == [6, 5]
    monkeypatch.setenv('LOCAL_RANK', '1')
    batches(sampler, 1)
    assert len(Asked.lists) == 2


def test_the_window_fits_twice_into_the_cache_and_all_are_shuffled_where_all_fit(
    folder, monkeypatch
):
    def window(cache: float) -> int:
        monkeypatch.setenv('TTL_STORE_CACHE_SIZE', f'{cache * SHARD / 1e6:.6f}MB')
        return EpochSampler(folder, seed=0).order.window

    assert [window(4.01), window(3.99), window(2)] == [0, 8, 4]
    assert EpochSampler(folder, seed=0, window=6).order.window == 6
    monkeypatch.setenv('TTL_STORE_CACHE_SIZE', f'{2 * SHARD / 1e6:.6f}MB')
    assert EpochSampler(folder, seed=0, window=EACH).order.window == 0
    assert EpochSampler(folder, shuffle=False, seed=0).order.window == 0


def test_a_list_in_another_order_has_no_windows(tmp_path, folder, monkeypatch):
    names = tmp_path / 'names.txt'
    names.write_text('\n'.join([*list(folder.names)[1:], folder.names[0]]))
    mixed = ImageFolder(url_of(folder.data_root), list_file=str(names))
    assert len(batches(EpochSampler(mixed, seed=0))) == EACH // 2
    assert Asked.lists == []
    monkeypatch.setenv('TTL_STORE_CACHE_SIZE', f'{2 * SHARD / 1e6:.6f}MB')
    with pytest.raises(UserError, match=r'000\.tar stands in several places .* sort the list'):
        EpochSampler(mixed, seed=0)


def test_without_a_shuffle_archives_are_asked_for_one_by_one(folder):
    batches(EpochSampler(folder, shuffle=False, seed=0))
    assert Asked.lists[1][:3] == [['001.tar'], ['002.tar'], ['003.tar']]


def test_a_list_of_images_in_a_store_is_asked_about_again(tmp_path, folder, monkeypatch):
    monkeypatch.setattr('ttl_mm.files.stores.listing.FRESH', 0.0)
    names = tmp_path / 'names.txt'
    names.write_text('\n'.join(folder.names))
    path = Path(folder.data_root) / '000.tar'
    before = remote_file(path)
    write_tar(tmp_path / 'served' / 'set' / '000.tar', [('0.jpg', b'new')])
    url = url_of(folder.data_root)
    ImageFolder(str(tmp_path / 'served' / 'set'), list_file=str(names))
    assert remote_file(path) == before
    ImageFolder(url, list_file=str(names))
    assert remote_file(path) != before


def test_files_and_archives_on_the_disk_are_not_asked_for(tmp_path, folder):
    local = ImageFolder(str(tmp_path / 'served' / 'set'))
    for sampler in (EpochSampler(local, seed=0), EpochSampler(local, seed=0, window=IMAGES)):
        found = batches(sampler)
        assert np.unique([int(i) for batch in found for i in batch]).size == EACH
    assert not any(any(group) for groups in Asked.lists for group in groups)
