"""Images of a store are known from small lists, and are those that the archives hold."""

import pytest

from tests.helpers.store import IMAGES, SHARDS, Store, content, write_shards
from ttl_mm.errors import UserError
from ttl_mm.files.archives.index import archive_index, index_archives
from ttl_mm.files.archives.listing import listing_text, parse_listing
from ttl_mm.files.archives.member import known_index, open_archive, read_image_file
from ttl_mm.files.stores import remote
from ttl_mm.files.stores.listing import remote_archives

NAMES = [f'{i}.jpg' for i in range(IMAGES)]
SIZE = 20480  # bytes of each shard on the disk


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Four shards with lists beside them."""
    folder = tmp_path / 'served' / 'set'
    write_shards(folder)
    for number in range(SHARDS):
        list_images(folder / f'{number:03}.tar', NAMES)
    monkeypatch.setenv('TTL_STORE_CACHE', str(tmp_path / 'cache'))
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'home'))
    monkeypatch.setattr(remote, 'WAITS', (0.01,))
    for cached in (known_index, open_archive):
        cached.cache_clear()
    with Store(tmp_path / 'served') as served:
        yield served
    for cached in (known_index, open_archive):
        cached.cache_clear()


def list_images(shard, names, size=SIZE) -> None:
    text = listing_text(size, names, [4] * len(names))
    shard.with_name(f'{shard.name}.names').write_text(text)


def images_of(store) -> list[list[str]]:
    found = index_archives(remote_archives(f'{store.url}/set'))
    return [index.names.read_text().split() for index in found]


def test_no_archive_is_fetched_to_know_its_images(store):
    assert images_of(store) == [NAMES] * SHARDS
    assert images_of(store) == [NAMES] * SHARDS
    assert sorted(store.transfers) == [f'set/{i:03}.tar.names' for i in range(SHARDS)]
    path = remote_archives(f'{store.url}/set')[2]
    assert archive_index(path, listed=True).labels.tolist() == [4] * IMAGES
    (store.folder / 'set' / '002.tar.names').unlink()
    with pytest.raises(UserError, match=r'002\.tar: it holds other images than the file \.names'):
        read_image_file(path / '1.jpg', 10**6)  # their labels differ


def test_an_archive_that_holds_other_images_than_its_list_is_refused(store):
    for number, names in enumerate((NAMES[1:], [*NAMES, 'x.jpg'], NAMES[::-1])):
        list_images(store.folder / 'set' / f'{number:03}.tar', names)
    images_of(store)
    for path in remote_archives(f'{store.url}/set')[:3]:
        with pytest.raises(UserError, match=f'{path.name}: it holds other images than the file'):
            read_image_file(path / '1.jpg', 10**6)


def test_without_a_list_or_with_one_of_another_archive_the_archive_is_fetched(store):
    folder = store.folder / 'set'
    list_images(folder / '000.tar', ['other.jpg'], SIZE + 512)
    (folder / '001.tar.names').unlink()
    (folder / '002.tar.names').write_text('<html>sign in</html>')
    assert images_of(store) == [NAMES] * SHARDS
    fetched = sorted(name for name in store.transfers if name.endswith('.tar'))
    assert fetched == [f'set/{i:03}.tar' for i in range(3)]
    path = remote_archives(f'{store.url}/set')[0]
    assert read_image_file(path / '1.jpg', 10**6) == content(0, 1)


@pytest.mark.parametrize(
    ('lines', 'reason'),
    [
        ('', '0 images cannot be all'),
        ('4 a.jpg', 'cannot be all'),
        ('a.jpg\n', 'line 2 has no label'),
        ('4 a.jpg\n-2 b.jpg\n', "line 3 has no label: '-2 b.jpg'"),
        ('99999999999999999999 a.jpg\n', 'has no label'),
        ('0000000000009999999999 a.jpg\n', 'has no label'),
        ('4 /etc/passwd\n', 'leads out'),
        ('4 ../a.jpg\n', 'leads out'),
        ('4 a.jpg\n4 a.jpg\n', 'twice'),
        ('4 a.jpg\n' * 41, '41 images cannot be all of an archive of 20480 bytes'),
    ],
)
def test_a_damaged_list_is_an_error_that_names_it(store, lines, reason):
    listing = store.folder / 'set' / '001.tar.names'
    listing.write_text(f'ttl_mm names 1 of {SIZE}\n{lines}')
    with pytest.raises(UserError, match=rf'set/001\.tar\.names: .*{reason}'):
        images_of(store)


def test_names_with_odd_line_ends_survive():
    names = ['a b.jpg', 'x\x85y.jpg', 'u\u2028v.jpg', '\udcff.jpg']
    assert parse_listing(listing_text(9999, names, range(4)), 9999, 9).names == names
    assert parse_listing(listing_text(9999, names, range(4)), 9998, 9) is None
