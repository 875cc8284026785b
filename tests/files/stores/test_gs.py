"""Shards in Google Cloud Storage, through gcsfs, from a loopback server for it."""

import base64
import hashlib
import json
import time
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from tests.helpers.store import IMAGES, SHARDS, Store, content, write_shards
from ttl_mm.files.archives.member import known_index, open_archive, read_image_file
from ttl_mm.files.stores import google, listing, remote
from ttl_mm.files.stores.listing import remote_archives
from ttl_mm.files.stores.remote import StoreError, describe
from ttl_mm.files.stores.url import place_of, store_root

TOKEN = 'a-secret-of-this-test'


class Google(Store):
    """A bucket ``photos``: lists and what is told of an object are JSON."""

    refusal: tuple[int, str] | None = None  # status and message of every answer
    asked = 0
    generation = 7
    parts = False  # whether objects were put together of parts, which have no MD5 sum

    def answer(self, request, head: bool) -> None:
        self.asked += 1
        url = urlsplit(request.path)
        if self.refusal:
            return self.fail(request, *self.refusal)
        place, _, name = url.path.partition('/storage/v1/b/')[2].partition('/o')
        bucket, path = self.folder / place, self.folder / place / unquote(name.strip('/'))
        if url.path.startswith('/download/'):
            request.path = f'{place}/{unquote(name.strip("/"))}'
            return super().answer(request, head)
        if name.strip('/') and path.is_file():
            return self.tell(request, self.object(bucket, path))
        if name.strip('/') or not bucket.is_dir():
            return self.fail(request, 404, 'The specified bucket or object does not exist.')
        prefix = parse_qs(url.query).get('prefix', [''])[0]
        files = [p for p in sorted(bucket.rglob('*')) if p.is_file()]
        found = [self.object(bucket, path) for path in files]
        self.tell(request, {'items': [o for o in found if o['name'].startswith(prefix)]})

    def object(self, bucket, path) -> dict:
        data = path.read_bytes()
        found = {
            'name': str(path.relative_to(bucket)),
            'size': str(len(data)),
            'generation': str(self.generation),
            'etag': f'tag-{self.asked}',  # of Google's, it changes without the content
            'crc32c': crc32c(data),
        }
        if not self.parts:
            found['md5Hash'] = base64.b64encode(hashlib.md5(data).digest()).decode()
        return found

    def tell(self, request, answer: dict, status: int = 200) -> None:
        headers = {'Content-Type': 'application/json'}
        self.send(request, status, json.dumps(answer).encode(), **headers)

    def fail(self, request, status: int, message: str) -> None:
        self.tell(request, {'error': {'code': status, 'message': message}}, status)


def crc32c(data: bytes) -> str:
    """The sum as Google writes it, bit by bit of the polynomial of Castagnoli."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return base64.b64encode((value ^ 0xFFFFFFFF).to_bytes(4, 'big')).decode()


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """Four shards in ``gs://photos/set``, which need no keys."""
    write_shards(tmp_path / 'served' / 'photos' / 'set')
    monkeypatch.setattr(remote, 'WAITS', (0.01, 0.01))
    monkeypatch.setattr(listing, 'FRESH', 0.0)
    for name in ('GOOGLE_APPLICATION_CREDENTIALS', 'GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT'):
        monkeypatch.delenv(name, raising=False)
    with Google(tmp_path / 'served') as store:
        for name, value in {
            'TTL_STORE_CACHE': tmp_path / 'cache',
            'XDG_CACHE_HOME': tmp_path / 'home',
            'CLOUDSDK_CONFIG': tmp_path / 'gcloud',
            'STORAGE_EMULATOR_HOST': store.url,
            'NO_GCE_CHECK': 'true',
        }.items():
            monkeypatch.setenv(name, str(value))
        clear()
        yield store
        clear()


def clear() -> None:
    for cached in (known_index, open_archive):
        cached.cache_clear()
    google._kind(False).clear_instance_cache()


def image(shard: int, number: int = 0) -> bytes:
    return read_image_file(place_of(f'gs://photos/set/{shard:03}.tar/{number}.jpg'), 10**6)


def test_shards_of_a_bucket_are_listed_and_fetched_once_without_a_word(bucket, capfd):
    found = remote_archives('gcs://photos/set/')
    assert [path.name for path in found] == [f'{i:03}.tar' for i in range(SHARDS)]
    for number in range(IMAGES):
        assert image(2, number) == content(2, number)
    assert bucket.transfers == ['photos/set/002.tar']
    assert capfd.readouterr() == ('', '')


@pytest.mark.parametrize('fault', ['broken', 'closes', 'cut', 'short', 'long', 'wrong'])
def test_a_fault_is_tried_as_often_as_that_of_any_store(bucket, fault, capfd):
    bucket.always = fault
    with pytest.raises(StoreError, match=r'gs://photos/set/001\.tar: .*; 3 tries in .* start'):
        image(1)
    assert 3 <= len(bucket.transfers) <= 6  # aiohttp opens a closed connection again, once
    bucket.always = ''
    assert image(1) == content(1, 0)
    assert capfd.readouterr() == ('', '')  # gcsfs prints a traceback


def test_a_store_that_is_silent_is_not_waited_for_without_end(bucket, monkeypatch):
    monkeypatch.setattr(remote, 'SILENCE', 1.0)  # a busy machine may need a part of it
    bucket.faults['photos/set/000.tar'] = ['stalls']
    begun = time.monotonic()
    assert image(0) == content(0, 0)
    assert time.monotonic() - begun < 10  # it is silent for 20 s


def test_hashes_are_checked_also_of_objects_that_came_in_parts(bucket):
    about = describe('gs://photos/set/000.tar')
    assert (set(about.hashes), about.tag) == ({'md5', 'crc32c'}, '7')
    bucket.parts, bucket.always = True, 'wrong'
    with pytest.raises(StoreError, match='the CRC32C sum of what came is not'):
        image(1)
    bucket.always = ''
    assert image(1) == content(1, 0)
    bucket.generation = 8
    place_of('gs://photos/set/001.tar').unlink()
    with pytest.raises(StoreError, match='was replaced in the store'):
        image(1)


@pytest.mark.parametrize(
    ('status', 'message', 'reason'),
    [
        (401, 'Anonymous caller does not have access.', r'answers 401 Anonymous .*\(give keys'),
        (403, 'me@x does not have access.', r'answers 403 me@x does not .*\(give keys'),
        (400, 'Bucket is a requester pays bucket.', 'answers 400 Bucket is a requester pays'),
        (400, 'invalid name', 'answers 400 invalid name'),
        (404, '', r'no such place \(check the address'),
    ],
)
def test_what_no_try_can_change_is_said_at_once(bucket, status, message, reason, capfd):
    bucket.refusal = status, message
    for ask in (lambda: image(0), lambda: remote_archives('gs://photos/set')):
        with pytest.raises(StoreError, match=f'gs://photos/set.*{reason}') as error:
            ask()
        assert 'tries' not in str(error.value)
    assert capfd.readouterr() == ('', '')


def test_keys_go_to_the_store_and_nowhere_else(bucket, tmp_path, monkeypatch, capfd):
    """Those of a service account, whose token a server on this machine gives."""
    bucket.user = TOKEN
    with pytest.raises(StoreError, match='401'):
        image(0)
    keys = write_keys(tmp_path / 'keys.json', f'{bucket.url}/token')
    monkeypatch.setenv('GOOGLE_APPLICATION_CREDENTIALS', str(tmp_path / 'keys.json'))
    given: list[tuple[int, dict]] = []

    def post(request):
        status, answer = given[0]
        bucket.tell(request, answer, status)

    monkeypatch.setattr(bucket.http.RequestHandlerClass, 'do_POST', post, raising=False)
    given[:] = [(400, {'error': 'invalid_grant', 'error_description': TOKEN})]
    google._kind(False).clear_instance_cache()
    with pytest.raises(StoreError, match=r'401 Invalid Credentials \(give keys') as error:
        image(0)
    given[:] = [(200, {'access_token': TOKEN, 'expires_in': 3600, 'token_type': 'Bearer'})]
    assert image(0) == content(0, 0)
    kept = b''.join(path.read_bytes() for path in store_root().rglob('*') if path.is_file())
    assert kept
    for secret in (TOKEN, keys):
        assert secret not in ''.join([str(error.value), *capfd.readouterr()])
        assert secret.encode() not in kept


def write_keys(path, url: str) -> str:
    """A file of keys as Google gives it; returns its secret part."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    fields = {
        'type': 'service_account', 'client_email': 'me@example.com', 'token_uri': url,
        'private_key': key.decode(), 'private_key_id': '1', 'project_id': 'photos',
    }  # fmt: skip
    path.write_text(json.dumps(fields))
    return key.decode().splitlines()[1]
