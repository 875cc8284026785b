"""The same run from a folder, from shards and from parquet, also after a kill."""

import signal
from functools import partial

import pyarrow
import pyarrow.parquet
import pytest

from tests.helpers.toy_run import (
    ITERATIONS,
    OUR_VIEWS,
    assert_same_run,
    curve,
    kill_at,
    make_images,
    run,
    write_config,
)
from ttl_mm.datasets import ImageFolder
from ttl_mm.datasets.shard_writer import shard_files, split_into_shards, write_shard

# steps of 50 images of each rank: a whole epoch on two ranks, half of one on a single rank
LARGER = 'train_dataloader.update(batch_size=50)\n'
SAVE = "dict(type='ttl_mm.CheckpointHook', interval=3, by_epoch=False, max_keep_ckpts=1)"
SOURCES = ('folder', 'shards', 'parquet')


@pytest.fixture(scope='module')
def sources(tmp_path_factory):
    """2,000 images as files, in ten shards, and in two parquet files."""
    root = tmp_path_factory.mktemp('sources')
    folder = make_images(root / 'folder', 2000)
    names = list(ImageFolder(str(folder)).names)
    (root / 'shards').mkdir()
    files = shard_files(folder, names)
    for number, shard in enumerate(split_into_shards(files, 360_000)):
        write_shard(root / 'shards' / f'{number:03}.tar', shard)
    assert len(list((root / 'shards').glob('*.tar'))) > 5
    (root / 'parquet').mkdir()
    for number, some in enumerate((names[:900], names[900:])):
        column = [{'bytes': (folder / name).read_bytes(), 'path': name} for name in some]
        table = pyarrow.table({'image': column})
        pyarrow.parquet.write_table(table, root / 'parquet' / f'{number}.parquet')
    return root


@pytest.fixture
def train(tmp_path, sources):
    """A function that trains 20 steps in ``tmp_path / work``; returns the exit codes."""

    def start(source, work, ranks=1, workers=0, prepare=None):
        settings = dict(loop=ITERATIONS, pipeline=OUR_VIEWS, checkpoint=SAVE, more=LARGER)
        config = tmp_path / f'{work}.py'
        write_config(config, sources / source, workers=workers, **settings)
        return run(config, tmp_path / work, ranks, prepare)

    return start


def test_shards_with_workers_and_parquet_train_as_files_do(tmp_path, train):
    for source, workers in (('folder', 0), ('shards', 2), ('parquet', 0)):
        assert train(source, source, workers=workers) == [0]
        assert len(curve(tmp_path / source)) == 20
        assert_same_run(tmp_path / source, tmp_path / 'folder')


def test_shards_train_as_files_do_on_two_ranks(tmp_path, train):
    for source, workers in (('folder', 0), ('shards', 1)):
        assert train(source, source, 2, workers) == [0, 0]
    assert_same_run(tmp_path / 'shards', tmp_path / 'folder', 2)


@pytest.mark.faults
@pytest.mark.parametrize('ranks', [1, 2])
def test_every_source_and_number_of_workers(tmp_path, train, ranks):
    assert train('folder', 'whole', ranks) == [0] * ranks
    for source in SOURCES:
        for workers in (0, 2):
            work = f'{source}_{workers}'
            assert train(source, work, ranks, workers) == [0] * ranks
            assert_same_run(tmp_path / work, tmp_path / 'whole', ranks)


def check_kills(tmp_path, train, steps):
    assert train('folder', 'whole') == [0]
    for step in steps:
        work = f'killed_{step}'
        assert train('shards', work, prepare=partial(kill_at, step)) == [-signal.SIGKILL]
        assert max(curve(tmp_path / work)) == step
        assert train('shards', work, workers=2) == [0]
        assert_same_run(tmp_path / work, tmp_path / 'whole')


def test_a_kill_resumes_from_shards_to_the_last_bit(tmp_path, train):
    check_kills(tmp_path, train, [8])


@pytest.mark.faults
def test_a_kill_at_any_step_resumes_from_shards_to_the_last_bit(tmp_path, train):
    check_kills(tmp_path, train, range(1, 21))
