"""The same run from a folder and from shards on a web server that fails now and then."""

import signal
from functools import partial
from pathlib import Path

import pytest

from tests.helpers.store import Store
from tests.helpers.toy_run import (
    ITERATIONS,
    OUR_VIEWS,
    assert_same_run,
    curve,
    kill_at,
    log_file,
    make_images,
    run,
    write_config,
)
from ttl_mm.datasets import ImageFolder
from ttl_mm.datasets.shard_writer import shard_files, split_into_shards, write_shard
from ttl_mm.files.stores import remote

# an order of all images among each other, which the smallest cache here is not made for
WHOLE = "train_dataloader['sampler'] = dict(type='ttl_mm.EpochSampler', window=200)\n"
SAVE = "dict(type='ttl_mm.CheckpointHook', interval=3, by_epoch=False, max_keep_ckpts=1)"


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """200 images as files, and in shards of a server; a new cache, and short pauses."""
    folder = make_images(tmp_path / 'folder', 200)
    names = list(ImageFolder(str(folder)).names)
    shards = tmp_path / 'served' / 'shards'
    shards.mkdir(parents=True)
    for number, files in enumerate(split_into_shards(shard_files(folder, names), 60_000)):
        write_shard(shards / f'{number:03}.tar', files)
    monkeypatch.setenv('TTL_STORE_CACHE', str(tmp_path / 'cache'))
    monkeypatch.setattr(remote, 'WAITS', (0.01, 0.01))
    with Store(tmp_path / 'served') as store:
        yield {'folder': folder, 'store': f'{store.url}/shards', 'server': store}


@pytest.fixture
def train(tmp_path, sources):
    """A function that trains 20 steps in ``tmp_path / work``; returns the exit codes."""

    def start(source, work, ranks=1, workers=0, prepare=None):
        config = tmp_path / f'{work}.py'
        settings = dict(loop=ITERATIONS, pipeline=OUR_VIEWS, checkpoint=SAVE, more=WHOLE)
        write_config(config, sources[source], workers=workers, **settings)
        return run(config, tmp_path / work, ranks, prepare)

    return start


def test_a_store_that_fails_now_and_then_trains_as_files_do(tmp_path, train, sources):
    server = sources['server']
    faults = ['broken', 'cut', 'wrong', 'short', 'closes']
    server.faults = {f'shards/{i:03}.tar': [fault] for i, fault in enumerate(faults)}
    for source, work, workers in (
        ('folder', 'files', 0),
        ('store', 'first', 0),
        ('store', 'again', 2),
    ):
        assert train(source, work, workers=workers) == [0]
        assert len(curve(tmp_path / work)) == 20
        assert_same_run(tmp_path / work, tmp_path / 'files')
    shards = len(list((tmp_path / 'served' / 'shards').glob('*.tar')))
    assert shards > 2
    fetched = [name for name in server.transfers if name.endswith('.tar')]
    assert len(fetched) == shards + min(shards, len(faults))


def test_a_kill_resumes_from_a_store_on_two_ranks_to_the_last_bit(tmp_path, train):
    assert train('folder', 'files', 2) == [0, 0]
    codes = train('store', 'killed', 2, prepare=partial(kill_at, 8))
    assert codes == [-signal.SIGKILL] * 2
    assert train('store', 'killed', 2, workers=1) == [0, 0]
    assert_same_run(tmp_path / 'killed', tmp_path / 'files', 2)


def test_a_store_that_goes_away_ends_the_run_with_a_sentence(tmp_path, train, sources, monkeypatch):
    """The cache holds one shard, so every step asks the store."""
    assert train('folder', 'files') == [0]
    monkeypatch.setenv('TTL_STORE_CACHE_SIZE', '0.1MB')
    server, transfers = sources['server'], []
    assert train('store', 'none', prepare=partial(kill_at, 1)) == [-signal.SIGKILL]
    server.transfers = Away(server, 20)
    assert train('store', 'away') == [2]
    text = log_file(tmp_path / 'away', 0).read_text()
    assert 'tries in' in text
    assert 'Check the store and the network' in text
    assert 'Traceback' not in text
    server.always, server.transfers = '', transfers
    assert train('store', 'away') == [0]
    assert_same_run(tmp_path / 'away', tmp_path / 'files')


class Away(list):
    """A list of transfers after some of which the server always fails."""

    def __init__(self, server: Store, after: int) -> None:
        super().__init__()
        self.server, self.after = server, after

    def append(self, name: str) -> None:
        super().append(name)
        if len(self) == self.after:
            self.server.always = 'broken'


@pytest.mark.parametrize('secret', ['https://me:pw@host/x', 'https://host/x?key=pw'])
def test_a_config_with_keys_in_an_address_is_refused_before_anything_is_written(tmp_path, secret):
    config = write_config(tmp_path / 'c.py', Path('x'))
    config.write_text(config.read_text().replace("data_root='x'", f'data_root={secret!r}'))
    assert run(config, tmp_path / 'work') == [2]
    text = log_file(tmp_path / 'work', 0).read_text()
    assert 'no user name, password or query' in text
    assert 'pw' not in text
    assert not (tmp_path / 'work').exists()
