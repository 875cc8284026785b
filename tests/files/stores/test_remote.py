"""A store that fails, is slow, cuts short or lies: what is read is right, or there is an error."""

import pytest

from tests.helpers.store import IMAGES, content
from ttl_mm.files.archives.member import known_index, open_archive, read_image_file
from ttl_mm.files.stores import remote
from ttl_mm.files.stores.remote import StoreError, describe, list_files
from ttl_mm.files.stores.url import place_of


def image(store, shard=0, number=0) -> bytes:
    return read_image_file(place_of(f'{store.url}/set/{shard:03}.tar/{number}.jpg'), 10**6)


def forget(store, shard=0) -> None:
    """As a process that begins anew, after the archive was removed from the cache."""
    place_of(f'{store.url}/set/{shard:03}.tar').unlink()
    open_archive.cache_clear()
    known_index.cache_clear()


def test_an_image_is_read_and_its_archive_fetched_once(store):
    for number in range(IMAGES):
        assert image(store, 2, number) == content(2, number)
    assert store.transfers == ['set/002.tar']


@pytest.mark.parametrize('fault', ['broken', 'closes', 'cut', 'short', 'long', 'wrong', 'page'])
def test_a_fault_that_passes_costs_time_and_one_that_stays_is_an_error(store, fault):
    store.faults['set/000.tar'] = [fault, fault]
    assert image(store) == content(0, 0)
    assert len(store.transfers) == 3
    store.always = fault
    with pytest.raises(StoreError, match=r'set/001\.tar: .*; 4 tries in .* start again'):
        image(store, 1)
    assert not place_of(f'{store.url}/set/001.tar').exists()
    assert not list(place_of(f'{store.url}/set').glob('*.partial'))


def test_a_store_that_stops_in_the_middle_or_trickles(store, monkeypatch):
    monkeypatch.setattr(remote, 'SILENCE', 0.2)
    store.faults['set/000.tar'] = ['stalls', 'slow']
    assert image(store) == content(0, 0)
    assert len(store.transfers) == 2


def test_what_no_try_can_change_is_said_at_once(store):
    with pytest.raises(StoreError, match=r'set/009\.tar: .*404'):
        image(store, 9)
    store.always = 'forbidden'
    with pytest.raises(StoreError, match=r'set/000\.tar: .*403 Forbidden \(give keys'):
        image(store)
    assert len(store.transfers) == 1
    with pytest.raises(StoreError, match='no such place'):
        list_files(f'{store.url}/nothing')


def test_without_hashes_the_content_must_be_that_of_the_first_time(store):
    store.tag = ''
    assert describe(f'{store.url}/set/000.tar').hashes == {}
    assert image(store) == content(0, 0)
    forget(store)
    store.always = 'wrong'
    with pytest.raises(StoreError, match='SHA-256 sum of what came is not'):
        image(store)


def test_an_archive_that_is_replaced_while_it_is_in_use_is_never_mixed(store):
    assert image(store) == content(0, 0)
    place_of(f'{store.url}/set/000.tar').unlink()
    served = store.folder / 'set' / '000.tar'
    served.write_bytes((store.folder / 'set' / '001.tar').read_bytes())
    for _ in range(2):  # also when the new version was fetched by somebody
        with pytest.raises(StoreError, match='was replaced in the store'):
            image(store)
    known_index.cache_clear()
    open_archive.cache_clear()
    assert image(store) == content(1, 0)


def test_hashes_are_read_from_where_stores_put_them(monkeypatch):
    md5, sha256 = '1B2M2Y8AsgTpgAmY7PhCfg==', '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    plain = 'd41d8cd98f00b204e9800998ecf8427e'
    whole = describe('s3://b/x', {'size': 5, 'ETag': f'"{plain}"'})
    assert whole.hashes == {'md5': plain}
    for about in (
        {'ETag': f'"{plain}-7"'},
        {'ETag': f'W/"{plain}"'},
        {'ETag': f'"{plain}"', 'ServerSideEncryption': 'aws:kms'},
        {'Content-MD5': 'nonsense', 'Digest': 'sha-256=AAAA, unixsum=1'},
    ):
        assert describe('s3://b/x', {'size': 5, **about}).hashes == {}
    for about in ({'md5Hash': md5}, {'Content-MD5': md5}, {'Digest': f'md5={md5}'}):
        assert describe('gs://b/x', {'size': 5, **about}).hashes == {'md5': plain}
    found = describe('https://h/x', {'size': 5, 'Digest': f'SHA-256={sha256}'}).hashes
    assert found['sha-256'].startswith('e3b0c44298fc1c14')
    monkeypatch.setenv('TTL_STORE_ETAG', 'ignore')
    assert describe('s3://b/x', {'size': 5, 'ETag': f'"{plain}"'}).hashes == {}


def test_an_empty_archive_is_refused(store):
    (store.folder / 'set' / '000.tar').write_bytes(b'')
    with pytest.raises(StoreError, match=r'000\.tar is empty: put it'):
        image(store)


def test_an_archive_without_a_length_is_refused(monkeypatch):
    class Chunked:
        def invalidate_cache(self):
            pass

        def info(self, url):
            return {'name': url, 'size': None}

    monkeypatch.setattr(remote, 'filesystem', lambda url: Chunked())
    with pytest.raises(StoreError, match=r'tells no length of it \(None\), so what it sends'):
        describe('https://host/x.tar')


def test_a_library_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setattr(remote, 'find_spec', lambda name: None if name == 'gcsfs' else 1)
    with pytest.raises(remote.UserError, match=r'gs:// needs gcsfs: .*ttl-mm\[gcs\]'):
        remote.filesystem('gs://bucket/x')


def test_keys_come_from_netrc_and_into_no_message(store, tmp_path, monkeypatch):
    store.user = 'bWU6c2VjcmV0'  # me:secret
    with pytest.raises(StoreError, match='401 Unauthorized'):
        image(store)
    (tmp_path / 'netrc').write_text('machine 127.0.0.1 login me password secret\n')
    monkeypatch.setenv('NETRC', str(tmp_path / 'netrc'))
    assert image(store) == content(0, 0)
    store.always = 'broken'
    with pytest.raises(StoreError) as error:
        image(store, 1)
    assert 'secret' not in str(error.value)
    kept = [path for path in place_of(store.url).rglob('*') if path.is_file()]
    assert kept
    assert not any(b'secret' in path.read_bytes() for path in kept)


def test_folders_without_end_are_an_error(store, monkeypatch):
    """A page that shows itself again and again, as a server may make them for ever."""
    monkeypatch.setattr(remote, 'MOST_PAGES', 3)
    (store.folder / 'a/b/c/d').mkdir(parents=True)
    with pytest.raises(StoreError, match='more than 3 folders: name one further down'):
        list_files(store.url)
