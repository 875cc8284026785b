"""Whatever a server does: the cache stays clean, the cause is named, the next try works."""

import multiprocessing
from functools import partial

import pytest
import torch

from tests.helpers.server import DATA, Server, entry
from ttl_mm.checkpoint.load import unreadable
from ttl_mm.errors import UserError
from ttl_mm.zoo import cache as zoo_cache
from ttl_mm.zoo.cache import status
from ttl_mm.zoo.transfer import MAX_REDIRECTS

fetch = partial(zoo_cache.fetch, check=unreadable, timeout=5)
TIMEOUT = 0.4


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    for name in ('TTL_ZOO_MIRROR', 'TTL_ZOO_OFFLINE', 'TTL_ZOO_CACHE'):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv('no_proxy', '127.0.0.1,localhost')


def good_files(folder):
    """Everything in the cache that a user of it could take for a file."""
    return [path for path in folder.glob('*') if path.is_file()]


HOSTILE = {
    'closes_at_once': 'broken|no connection',
    'stalls': 'nothing came for 0.4 s',
    'never_answers': r'no(thing came| answer) for 0.4 s',
    'drips': 'bytes came in 0.4 s',
    'wrong_bytes': 'its sha256 is .* instead of',
    'too_short': 'has 299993 bytes instead of 300000',
    'too_long': 'has 300007 bytes instead of 300000',
    'endless': 'sends more than 300000 bytes',
    'not_found': '404 Not Found',
    'broken': '500 Internal Server Error',
    'web_page': 'it is a web page',
    'redirects_away': 'redirects to another host, localhost:',
    'redirects_to_file': 'Redirection to url .* is not allowed',
    'redirects_forever': '302',
    'huge_header': 'the answer is broken',
    'not_http': 'the answer is broken',
}


@pytest.mark.parametrize('mode', HOSTILE)
def test_hostile_server(mode, tmp_path):
    with Server(DATA, mode) as server:
        with pytest.raises(UserError, match=f'net could not be fetched.*{HOSTILE[mode]}'):
            fetch(entry(server.url), tmp_path, timeout=TIMEOUT)
        assert len(server.requests) <= zoo_cache.ATTEMPTS + MAX_REDIRECTS
        assert good_files(tmp_path) == []
        server.stop.set()
        server.mode = 'good'
        path = fetch(entry(server.url), tmp_path)
        assert (path.read_bytes(), good_files(tmp_path)) == (DATA, [path])


def test_odd_manners_mirrors_and_named_redirects_still_give_the_file(tmp_path, monkeypatch):
    """The hash decides: not the content type, and not a wrong first half, which is thrown away."""
    twice = (['wrong_bytes_half', 'ignores_range'], ['wrong_bytes_half', 'good'])
    for modes in (['good_but_called_a_page'], ['redirects_home', 'good'], *twice):
        with Server(DATA, modes) as server:
            path = fetch(entry(server.url), tmp_path / '-'.join(modes))
            assert path.read_bytes() == DATA
    with Server(DATA, 'not_found') as bad, Server(DATA) as good, Server(DATA) as own:
        both = entry(bad.url, good.url)
        assert fetch(both, tmp_path / 'a').read_bytes() == DATA
        assert (len(bad.requests), len(good.requests)) == (1, 1)
        monkeypatch.setenv('TTL_ZOO_MIRROR', own.url.removesuffix('/file.pth'))
        assert fetch(both, tmp_path / 'b').read_bytes() == DATA
        assert (len(bad.requests), own.requests) == (1, [('/net.pth', None)])
    with Server(DATA, ['redirects_away', 'good']) as server:
        named = entry(server.url, redirect_hosts=('localhost',))
        assert fetch(named, tmp_path).read_bytes() == DATA


def test_interrupted_transfers_go_on_where_they_ended(tmp_path, monkeypatch):
    with Server(DATA, ['closes_early', 'good']) as server:
        assert fetch(entry(server.url), tmp_path / 'other').read_bytes() == DATA
        assert [asked for _, asked in server.requests] == [None, 'bytes=150000-']
    monkeypatch.setattr(zoo_cache, 'ATTEMPTS', 1)  # so that another call takes up the part
    with Server(DATA, ['closes_early', 'continues_elsewhere', 'good']) as server:
        other_part = "continues at 'bytes 5-14/300000', not byte 150000"
        for message in ('ended after 150000 of 300000 bytes', other_part):
            with pytest.raises(UserError, match=message):
                fetch(entry(server.url), tmp_path)
        assert good_files(tmp_path) == []
        assert fetch(entry(server.url), tmp_path).read_bytes() == DATA
        assert server.requests[-1][1] == 'bytes=150000-'


def test_cached_files_need_no_network_and_damaged_ones_are_fetched_again(tmp_path, monkeypatch):
    with Server(DATA) as server:
        path = fetch(entry(server.url), tmp_path)
        path.write_bytes(DATA[:-1] + bytes([DATA[-1] ^ 1]))
        assert status(entry(server.url), tmp_path).startswith('damaged: its sha256 is')
        said = []
        assert fetch(entry(server.url), tmp_path, say=said.append).read_bytes() == DATA
        assert 'damaged' in said[0]
        assert status(entry(server.url), tmp_path) == 'ok'
    with pytest.raises(UserError, match=r'no connection \(.*refused'):  # the server has ended
        fetch(entry(server.url), tmp_path / 'empty', timeout=TIMEOUT)
    assert good_files(tmp_path / 'empty') == []
    monkeypatch.setenv('TTL_ZOO_OFFLINE', '1')
    assert fetch(entry(server.url), tmp_path).read_bytes() == DATA
    with pytest.raises(UserError, match='TTL_ZOO_OFFLINE is set'):
        fetch(entry(server.url), tmp_path / 'empty')


def test_shipped_file_is_used_in_place_and_another_address_if_it_is_missing(tmp_path):
    cache, ours, theirs = (tmp_path / name for name in ('cache', 'net.pth', 'theirs.pth'))
    shipped = entry('net.pth', theirs.as_uri(), folder=tmp_path)
    theirs.write_bytes(bytes(300_000))
    with pytest.raises(UserError, match='its sha256 is'):  # file: is checked like any address
        fetch(shipped, cache)
    theirs.write_bytes(DATA)
    assert fetch(shipped, cache) == cache / 'net.pth'
    assert status(shipped, cache) == 'ok'
    ours.write_bytes(DATA)
    assert fetch(shipped, cache) == ours
    ours.write_bytes(DATA[:-1])
    with pytest.raises(UserError, match='damaged, it has 299999 bytes'):
        fetch(shipped, cache)


def test_file_without_hash_needs_a_flag_and_is_checked_and_pinned(tmp_path):
    block = {'layer1.0.conv1.weight': torch.zeros(2, 2), 'conv1.weight': torch.ones(3)}
    torch.save(block, tmp_path / 'good.pth')
    torch.save({'conv1.weight': torch.ones(3)}, tmp_path / 'other.pth')
    cache = tmp_path / 'cache'
    with Server((tmp_path / 'good.pth').read_bytes()) as server:
        unhashed = entry(server.url, hashed=False)
        with pytest.raises(UserError, match='nobody has published a hash for net'):
            fetch(unhashed, cache)
        assert server.requests == []
        path = fetch(unhashed, cache, allow_unhashed=True)
        assert fetch(unhashed, cache) == path  # the pin is its hash from now on
        path.unlink()
        server.data = (tmp_path / 'other.pth').read_bytes()
        with pytest.raises(UserError, match='could not be fetched'):
            fetch(unhashed, cache, allow_unhashed=True)
        assert status(unhashed, cache) == 'missing'
    for mode, cause in (('good', 'not a readable checkpoint'), ('web_page', 'it is a web page')):
        with Server(b'hello', mode) as server, pytest.raises(UserError, match=cause):
            fetch(entry(server.url, hashed=False), tmp_path / 'bad', allow_unhashed=True)
    assert good_files(tmp_path / 'bad') == []
    assert [path.suffix for path in (tmp_path / 'bad' / 'partial').iterdir()] == ['.lock']


def test_a_cache_without_space_or_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr('shutil.disk_usage', lambda folder: type('Usage', (), {'free': 1000}))
    with Server(DATA) as server, pytest.raises(UserError, match='has 1000 bytes free, 300000 are'):
        fetch(entry(server.url), tmp_path)
    (tmp_path / 'file').write_text('')
    with pytest.raises(UserError, match='set TTL_ZOO_CACHE'):
        fetch(entry('http://127.0.0.1:1/x'), tmp_path / 'file' / 'cache')


def _fetch_in_child(url, folder, barrier, answers):
    barrier.wait()
    try:
        answers.put(fetch(entry(url), folder).read_bytes() == DATA)
    except UserError as error:
        answers.put(str(error))


def test_processes_that_fetch_at_once(tmp_path):
    context = multiprocessing.get_context('fork')
    barrier, answers = context.Barrier(3), context.Queue()
    with Server(DATA, ['closes_early', 'good']) as server:
        job = dict(target=_fetch_in_child, args=(server.url, tmp_path, barrier, answers))
        children = [context.Process(**job) for _ in range(3)]
        for child in children:
            child.start()
        found = [answers.get(timeout=30) for _ in children]
        for child in children:
            child.join(10)
    assert found == [True] * 3
    assert len(server.requests) == 2  # one process fetched, in two goes; the others waited
