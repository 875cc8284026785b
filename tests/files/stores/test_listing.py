"""Which archives an address stands for."""

import shutil

import pytest

from ttl_mm.files.archives.write_tar import write_tar
from ttl_mm.files.stores.cache import remote_file
from ttl_mm.files.stores.listing import local_root, refresh, remote_archives
from ttl_mm.files.stores.remote import StoreError
from ttl_mm.files.stores.url import place_of


def names(store, address: str) -> list[str]:
    root = place_of(store.url)
    return [str(path.relative_to(root)) for path in remote_archives(store.url + address)]


def test_a_folder_one_archive_and_a_range(store):
    shards = [f'set/{i:03}.tar' for i in range(4)]
    for hidden in ('.x.tar', 'notes.txt'):
        (store.folder / 'set' / hidden).write_bytes(b'x')
    assert names(store, '/set') == names(store, '') == shards
    assert names(store, '/set/002.tar') == shards[2:3]
    store.lists = False
    assert names(store, '/set/{001..002}.tar') == shards[1:3]
    assert local_root(f'{store.url}/set/{{001..002}}.tar') == place_of(f'{store.url}/set')
    assert store.transfers == []


def test_no_archives_and_a_folder_that_cannot_be_listed_are_errors(store):
    (store.folder / 'photos').mkdir()
    (store.folder / 'photos' / '1.jpg').write_bytes(b'x')
    with pytest.raises(StoreError, match=r'has no archives \(found: 1.jpg\)'):
        remote_archives(f'{store.url}/photos')
    store.lists = False
    with pytest.raises(StoreError, match='no such place'):
        remote_archives(f'{store.url}/set')


def test_an_archive_in_a_folder_that_is_named_like_one_is_refused(store):
    shutil.copytree(store.folder / 'set', store.folder / 'set.tar')
    for address in ('', '/set.tar/000.tar', '/set.tar/{000..001}.tar'):
        with pytest.raises(StoreError, match=r'set\.tar/000\.tar lies in a folder whose name'):
            remote_archives(store.url + address)


def test_a_shard_that_was_replaced_is_another_file(store):
    path = place_of(f'{store.url}/set/000.tar')
    remote_archives(f'{store.url}/set')
    before = remote_file(path)
    write_tar(store.folder / 'set' / '000.tar', [('9.jpg', b'new')])
    assert remote_file(path) == before
    refresh([path])
    assert remote_file(path).time != before.time
    shutil.rmtree(store.folder / 'set')
    with pytest.raises(StoreError, match='404'):
        refresh([path])
