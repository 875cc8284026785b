"""``ttl embed`` in several processes, and after an interruption."""

import os
import socket

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing

from tests.helpers.checkpoints import below, random_network
from tests.helpers.images import write_images
from ttl_mm.cli import main
from ttl_mm.evaluation.feature_file import FeatureWriter
from ttl_mm.explore.embedding import read_embedding

IMAGES, BATCH = 22, 4  # six batches
BROKEN = 3


@pytest.fixture(scope='module')
def command(tmp_path_factory):
    """The command without its output, and the features that one process finds."""
    root = tmp_path_factory.mktemp('embed')
    write_images(root / 'images', IMAGES, 32, 32, bad=[BROKEN])
    state = below('backbone.', random_network(0).state_dict())
    torch.save({'state_dict': state}, root / 'weights.pth')
    words = ['embed', str(root / 'images'), '--weights', str(root / 'weights.pth')]
    words += ['--workers', '0', '--batch-size', str(BATCH), '--out']
    assert main([*words, str(root / 'whole.safetensors')]) == 0
    return words, read_embedding(root / 'whole.safetensors').features


def count_writes(patch, stop_after=None):
    """The batches that are written from now on; after so many the process is interrupted."""
    batches, write = [], FeatureWriter.write

    def counted(self, batch, *rest):
        if len(batches) == stop_after:
            raise KeyboardInterrupt
        batches.append(batch)
        write(self, batch, *rest)

    patch.setattr(FeatureWriter, 'write', counted)
    return batches


def _rank(rank, words, port, folder):
    os.environ |= {
        'RANK': str(rank), 'LOCAL_RANK': str(rank), 'WORLD_SIZE': '2',
        'MASTER_ADDR': 'localhost', 'MASTER_PORT': str(port),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        batches = count_writes(patch)
        assert main(words) == 0
    (folder / f'rank{rank}.txt').write_text(' '.join(map(str, batches)))
    distributed.destroy_process_group()


@pytest.mark.parametrize('ending', ['safetensors', 'npy'])
def test_every_process_takes_its_share(command, tmp_path, ending):
    words, expected = command
    with socket.socket() as free:
        free.bind(('localhost', 0))
        port = free.getsockname()[1]
    out = tmp_path / f'two.{ending}'
    passed = [*words, str(out)], port, tmp_path
    multiprocessing.start_processes(_rank, passed, nprocs=2, start_method='fork')
    assert [(tmp_path / f'rank{rank}.txt').read_text() for rank in (0, 1)] == ['0 2 4', '1 3 5']
    found = read_embedding(out)
    assert len(found) == IMAGES - 1
    assert np.array_equal(found.features, expected)


@pytest.mark.parametrize('ending', ['safetensors', 'csv'])
def test_an_interrupted_command_goes_on_where_it_stopped(command, tmp_path, ending):
    words, expected = command
    out = tmp_path / f'again.{ending}'
    with pytest.MonkeyPatch.context() as patch:
        assert count_writes(patch, stop_after=2) == []
        assert main([*words, str(out)]) == 130
    assert not out.exists()
    with pytest.MonkeyPatch.context() as patch:
        batches = count_writes(patch)
        assert main([*words, str(out)]) == 0
    assert batches == [2, 3, 4, 5]
    assert np.array_equal(read_embedding(out).features, expected)
    assert list(tmp_path.iterdir()) == [out]


def test_a_file_of_something_else_is_not_replaced_unasked(command, tmp_path, capsys):
    words, expected = command
    out = tmp_path / 'model.safetensors'
    out.write_bytes(b'weights of a month')
    assert main([*words, str(out)]) == 2
    assert 'holds something else' in capsys.readouterr().err
    assert out.read_bytes() == b'weights of a month'
    assert main([*words, str(out), '--overwrite']) == 0
    assert main([*words, str(out)]) == 0  # the same again: nothing to do
    assert np.array_equal(read_embedding(out).features, expected)
