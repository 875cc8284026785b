"""What gcsfs does by itself is left out, told by a stand-in for it; its errors are understood."""

import asyncio
import functools
import sys
import types

import pytest

from ttl_mm.errors import UserError
from ttl_mm.files.stores import google, remote
from ttl_mm.files.stores.remote import StoreError, _retried


def repeated(method):
    """As gcsfs does it: a decorator that makes a request again and again."""

    @functools.wraps(method)
    async def six_times(*args, **kwargs):
        for _ in range(6):
            await method(*args, **kwargs)

    return six_times


class Plain:
    def __init__(self, **given):
        self.given, self.calls = given, []

    @repeated
    async def _request(self, name):
        self.calls.append(name)

    @repeated
    async def _get_file_request(self, rpath, lpath, callback=None):
        self.calls.append((rpath, lpath, callback))

    async def _get_file(self, rpath, lpath, callback=None, concurrency=4):
        raise AssertionError('in pieces, all in memory')


class Rapid(Plain):
    pass


@pytest.fixture
def gcsfs(monkeypatch):
    module = types.ModuleType('gcsfs')
    module.GCSFileSystem = Rapid
    module.core = types.SimpleNamespace(GCSFileSystem=Plain)
    monkeypatch.setitem(sys.modules, 'gcsfs', module)
    monkeypatch.delenv('GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT', raising=False)
    google._kind.cache_clear()
    yield module
    google._kind.cache_clear()


def test_each_request_is_made_once_and_has_a_bound(gcsfs, monkeypatch):
    monkeypatch.setattr(remote, 'find_spec', lambda name: True)
    system = remote.filesystem('gs://bucket/x')
    asyncio.run(system._request('list'))
    asyncio.run(system._get_file('a', 'b', callback=1, concurrency=4))
    assert system.calls == ['list', ('a', 'b', 1)]
    assert system.given['requests_timeout'].sock_read == remote.SILENCE
    assert system.given['requests_timeout'].total is None
    assert system.given['session_kwargs'] == {'trust_env': True}
    assert not system.given['use_listings_cache']


def test_what_kind_a_bucket_is_is_asked_only_if_that_is_set(gcsfs, monkeypatch):
    assert not isinstance(google.google_filesystem(None), Rapid)
    monkeypatch.setenv('GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT', 'true')
    assert isinstance(google.google_filesystem(None), Rapid)


def test_damaged_keys_are_one_sentence(gcsfs, monkeypatch):
    def refuse(self, **given):
        raise AttributeError("'list' object has no attribute 'get'")

    monkeypatch.setattr(Plain, '__init__', refuse)
    with pytest.raises(UserError, match=r'keys for gs:// .*AttributeError.*: check GOOGLE_APPLI'):
        google.google_filesystem(None)


class HttpError(Exception):
    """The error of gcsfs: its code is a number, its text, or None."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code, self.message = code, message


class ProxyError(OSError):
    """What gcsfs makes of a status 502."""


class RefreshError(Exception):
    def __init__(self, retryable):
        self.retryable = retryable


def unrenewed(retryable: bool) -> HttpError:
    """Keys that could not be renewed."""
    error = HttpError(401, 'Invalid Credentials, 401')
    error.__cause__ = RefreshError(retryable)
    return error


@pytest.mark.parametrize(
    ('error', 'tries', 'reason'),
    [
        (HttpError(401, 'Anonymous caller, 401'), 1, r'the store answers 401 Anonymous caller \(g'),
        (HttpError('403', 'No'), 1, r'answers 403 No \(give keys'),
        (HttpError(429, 'Slow down, 429'), 2, 'answers 429 Slow down; 2 tries'),
        (HttpError(503, ''), 2, 'answers 503; 2 tries'),
        (HttpError(None, 'odd'), 2, 'HttpError odd'),
        (OSError('Forbidden: https://h/b/x?key=secret\nme@x has no access'), 1, '403 me@x has no'),
        (ValueError('Bad Request: https://h/b/x\ninvalid name'), 1, 'answers 400 invalid name'),
        (ProxyError(), 2, 'answers 502; 2 tries'),
        (unrenewed(retryable=False), 1, r'401 Invalid Credentials \(give keys'),
        (unrenewed(retryable=True), 2, '401 Invalid Credentials .*; 2 tries'),
    ],
)
def test_errors_of_gcsfs_are_understood(error, tries, reason):
    asked = []

    def ask():
        asked.append(1)
        raise error

    with pytest.raises(StoreError, match=f'gs://b/x: .*{reason}') as said:
        _retried('gs://b/x', ask, pauses=(0.0,))
    assert len(asked) == tries
    assert 'secret' not in str(said.value)
