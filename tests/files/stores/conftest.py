"""A store of shards on a real loopback server, and a cache of its own."""

import pytest

from tests.helpers.store import Store, write_shards
from ttl_mm.files.archives.member import known_index, open_archive
from ttl_mm.files.stores import listing, remote


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Four shards in the folder ``set``; nothing is waited for long."""
    write_shards(tmp_path / 'served' / 'set')
    monkeypatch.setenv('TTL_STORE_CACHE', str(tmp_path / 'cache'))
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'home'))
    monkeypatch.setattr(remote, 'WAITS', (0.01, 0.01, 0.01))
    monkeypatch.setattr(listing, 'FRESH', 0.0)
    for cached in (known_index, open_archive):
        cached.cache_clear()
    with Store(tmp_path / 'served') as served:
        yield served
    for cached in (known_index, open_archive):
        cached.cache_clear()
