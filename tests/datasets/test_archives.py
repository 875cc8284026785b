"""Images in archives train as the same images in a folder do."""

import zipfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from torch.utils.data import DataLoader

from tests.helpers.images import write_images
from ttl_mm.cli import main
from ttl_mm.datasets import EpochSampler, ImageFolder, TarShards
from ttl_mm.datasets.train_loader import train_loader
from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import labeled_folder
from ttl_mm.files.archives.write_tar import write_tar
from ttl_mm.planning.image_sources import find_images

PIPELINE = [
    dict(type='ttl_mm.RandomViews', views=[dict(size=12), dict(size=8)]),
    dict(type='mmpretrain.PackInputs'),
]


@pytest.fixture
def images(tmp_path):
    """Twelve images of two classes."""
    for name in ('cat', 'dog'):
        (tmp_path / 'files' / name).mkdir(parents=True)
        write_images(tmp_path / 'files' / name, 6, 24, 16)
    return tmp_path / 'files'


def batches(dataset, workers):
    stock = DataLoader(dataset, 5, sampler=EpochSampler(dataset, seed=3), num_workers=workers)
    stock.collate_fn = lambda samples: [view for s in samples for view in s['inputs']]
    loader = train_loader(stock, seed=3)
    loader.batch_sampler.set_position(1, 5)
    return [view.numpy() for batch in loader for view in batch.data]


def test_folder_shards_zip_and_parquet_give_the_same_batches(images, tmp_path, capsys):
    shards = tmp_path / 'shards'
    assert main(['shard', str(images), '--out', str(shards), '--size', '0.01MB']) == 0
    assert len(list(shards.glob('*.tar'))) > 1
    names = list(ImageFolder(str(images)).names)
    with zipfile.ZipFile(tmp_path / 'x.zip', 'w', zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.write(images / name, name)
    column = [{'bytes': (images / name).read_bytes(), 'path': name} for name in names]
    pyarrow.parquet.write_table(pyarrow.table({'image': column}), tmp_path / 'x.parquet')
    expected = batches(ImageFolder(str(images), PIPELINE), 0)
    assert len(expected) == 2 * 7
    for source, workers in ((shards, 0), (shards, 2), ('x.zip', 0), ('x.parquet', 0)):
        found = batches(TarShards(str(tmp_path / source), PIPELINE), workers)
        assert len(found) == len(expected)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected))


def test_shards_are_written_once_and_hold_the_labels(images, tmp_path, capsys):
    line = ['shard', str(images), '--labeled', '--out', str(tmp_path / 'shards')]
    assert main(line) == 0
    (shard,) = (tmp_path / 'shards').glob('*.tar')
    before = shard.read_bytes()
    assert main(line) == 0
    assert '(1 already there)' in capsys.readouterr().out
    assert shard.read_bytes() == before
    assert (tmp_path / 'shards' / 'classes.txt').read_text() == 'cat\ndog\n'
    whole = labeled_folder(tmp_path / 'shards', 8)
    assert whole.get_gt_labels().tolist() == [0] * 6 + [1] * 6
    write_images(images / 'dog', 7, 24, 16)
    assert main(line) == 2
    assert 'holds other images' in capsys.readouterr().err
    assert shard.read_bytes() == before


def test_a_random_order_is_the_same_every_time_and_keeps_labels(images, tmp_path):
    for out in ('one', 'two'):
        line = ['shard', str(images), '--labeled', '--shuffle', '--size', '0.01MB']
        assert main([*line, '--out', str(tmp_path / out)]) == 0
    one, two = ([path.read_bytes() for path in sorted((tmp_path / out).glob('*.tar'))]
                for out in ('one', 'two'))  # fmt: skip
    assert one == two
    found = labeled_folder(tmp_path / 'one', 8)
    inner = [name.partition('.tar/')[2] for name in found.names]
    assert inner != sorted(inner)
    assert sorted(inner) == list(ImageFolder(str(images)).names)
    classes = [('cat', 'dog').index(name.partition('/')[0]) for name in inner]
    assert found.get_gt_labels().tolist() == classes


def test_classes_without_labels_are_the_folders_in_an_archive(images, tmp_path):
    assert main(['shard', str(images), '--out', str(tmp_path / 'shards')]) == 0
    shards = TarShards(str(tmp_path / 'shards'), with_label=True)
    assert shards.metainfo['classes'] == ('cat', 'dog')
    assert shards.get_gt_labels().tolist() == [0] * 6 + [1] * 6


def test_archives_beside_files_are_left_out_and_named_ones_are_taken(images, tmp_path):
    assert main(['shard', str(images), '--out', str(tmp_path / 'shards')]) == 0
    (shard,) = (tmp_path / 'shards').glob('*.tar')
    shard.rename(images / 'backup.tar')
    assert len(ImageFolder(str(images))) == 12
    assert len(find_images([images / 'backup.tar'])) == 12
    with pytest.raises(UserError, match='holds image files and no archives'):
        TarShards(str(images))


def test_names_that_would_be_one_sample_are_refused(tmp_path, capsys):
    write_images(tmp_path / 'in', 1, 8, 8)
    for name in ('a.b.jpg', 'a_b.jpg'):
        (tmp_path / 'in' / name).write_bytes((tmp_path / 'in' / '0.jpg').read_bytes())
    assert main(['shard', str(tmp_path / 'in'), '--out', str(tmp_path / 'out')]) == 2
    assert 'would be one sample' in capsys.readouterr().err
    assert not list((tmp_path / 'out').glob('*.tar'))


def test_a_label_that_would_make_a_billion_classes_is_refused(tmp_path):
    write_tar(tmp_path / 'a.tar', [('1.jpg', b''), ('1.cls', b'2000000000')])
    with pytest.raises(UserError, match='has the label 2000000000'):
        TarShards(str(tmp_path), with_label=True)
    assert len(TarShards(str(tmp_path))) == 1
