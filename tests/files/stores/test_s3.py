"""Shards in S3, through s3fs, from a loopback server that speaks the part of S3 that is needed."""

from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import fsspec
import pytest

from tests.helpers.store import IMAGES, SHARDS, Store, content, write_shards
from ttl_mm.files.archives.member import known_index, open_archive, read_image_file
from ttl_mm.files.stores import listing, remote
from ttl_mm.files.stores.listing import remote_archives
from ttl_mm.files.stores.remote import StoreError, describe
from ttl_mm.files.stores.url import place_of, store_root

KEY, SECRET = 'AKIAEXAMPLE', 'a-secret-of-this-test'


class S3(Store):
    """A bucket ``photos``: lists of objects are XML, objects are files."""

    def answer(self, request, head: bool) -> None:
        url = urlsplit(request.path)
        query = parse_qs(url.query)
        self.signatures.append(request.headers.get('Authorization', ''))
        if 'list-type' not in query:
            request.path = url.path
            return super().answer(request, head)
        prefix = query.get('prefix', [''])[0]
        bucket = self.folder / url.path.strip('/')
        if not bucket.is_dir():
            return self.send(request, 404, b'<Error><Code>NoSuchBucket</Code></Error>')
        found = ''
        for path in sorted(p for p in bucket.rglob('*') if p.is_file()):
            key = str(path.relative_to(bucket))
            if key.startswith(prefix):
                found += (
                    f'<Contents><Key>{escape(key)}</Key><Size>{path.stat().st_size}</Size>'
                    '<LastModified>2026-01-01T00:00:00.000Z</LastModified>'
                    f'<ETag>"{self.md5(path)}"</ETag></Contents>'
                )
        page = f'<ListBucketResult><IsTruncated>false</IsTruncated>{found}</ListBucketResult>'
        self.send(request, 200, page.encode(), **{'Content-Type': 'application/xml'})


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """Four shards in ``s3://photos/set``, with keys in the environment."""
    write_shards(tmp_path / 'served' / 'photos' / 'set')
    (tmp_path / 'empty').write_text('')
    monkeypatch.setattr(remote, 'WAITS', (0.01, 0.01))
    monkeypatch.setattr(listing, 'FRESH', 0.0)
    with S3(tmp_path / 'served') as store:
        store.signatures = []
        for name, value in {
            'TTL_STORE_CACHE': tmp_path / 'cache',
            'XDG_CACHE_HOME': tmp_path / 'home',
            'AWS_ENDPOINT_URL': store.url,
            'AWS_ACCESS_KEY_ID': KEY,
            'AWS_SECRET_ACCESS_KEY': SECRET,
            'AWS_DEFAULT_REGION': 'us-east-1',
            'AWS_CONFIG_FILE': tmp_path / 'empty',
            'AWS_SHARED_CREDENTIALS_FILE': tmp_path / 'empty',
            'AWS_MAX_ATTEMPTS': '1',
        }.items():
            monkeypatch.setenv(name, str(value))
        for cached in (known_index, open_archive):
            cached.cache_clear()
        fsspec.filesystem('s3').clear_instance_cache()
        yield store
        fsspec.filesystem('s3').clear_instance_cache()
    for cached in (known_index, open_archive):
        cached.cache_clear()


def image(shard: int, number: int = 0) -> bytes:
    return read_image_file(place_of(f's3://photos/set/{shard:03}.tar/{number}.jpg'), 10**6)


def test_shards_of_a_bucket_are_listed_fetched_once_and_signed_for(bucket):
    found = remote_archives('s3://photos/set')
    assert [path.name for path in found] == [f'{i:03}.tar' for i in range(SHARDS)]
    for number in range(IMAGES):
        assert image(2, number) == content(2, number)
    assert bucket.transfers == ['photos/set/002.tar']
    assert all(f'Credential={KEY}/' in signature for signature in bucket.signatures)


@pytest.mark.parametrize('name', ['a#1.tar', 'a?1.tar', 'a\t1.tar'])
def test_no_archive_is_left_out_for_its_name(bucket, name):
    (bucket.folder / 'photos' / 'set' / name).write_bytes(b'x')
    with pytest.raises(StoreError, match=r"'s3://photos/set/a.*1\.tar' has a name that no addre"):
        remote_archives('s3://photos/set')


def test_the_etag_is_the_hash_that_is_checked(bucket):
    assert 'md5' in describe('s3://photos/set/000.tar').hashes
    bucket.faults['photos/set/000.tar'] = ['wrong']
    assert image(0) == content(0, 0)
    assert len(bucket.transfers) == 2
    bucket.always = 'wrong'
    with pytest.raises(StoreError, match=r's3://photos/set/001\.tar: the MD5 sum'):
        image(1)


def test_errors_name_the_address_and_no_key(bucket, capfd):
    bucket.always = 'forbidden'
    errors = []
    for place in ('s3://photos/set/000.tar', 's3://nobody/set', 's3://photos/none'):
        with pytest.raises(StoreError, match=place) as error:
            image(0) if place.endswith('.tar') else remote_archives(place)
        errors.append(str(error.value))
    kept = b''.join(path.read_bytes() for path in store_root().rglob('*') if path.is_file())
    printed = ''.join(capfd.readouterr())
    for secret in (KEY, SECRET):
        assert secret not in ' '.join(errors)
        assert secret.encode() not in kept
        assert secret not in printed
