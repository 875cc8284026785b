"""``ttl embed``, ``map``, ``duplicates``, ``search`` and ``select`` on files, from end to end."""

import csv
import shutil
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pyarrow.parquet
import pytest
import torch
from mmengine.dataset import default_collate

from tests.helpers.browser import opened
from tests.helpers.checkpoints import random_network
from tests.helpers.images import encode, natural
from ttl_mm.cli import main
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import labeled_folder
from ttl_mm.explore.embedding import read_embedding
from ttl_mm.planning.image_sources import find_images, try_images

COUNT, BAD = 24, 5


@pytest.fixture(scope='module')
def network():
    return random_network(0)


@pytest.fixture(scope='module')
def photos(tmp_path_factory, network):
    """Images in a folder with one broken file, and weights beside it."""
    root = tmp_path_factory.mktemp('photos')
    for i in range(COUNT):
        content = b'<html>' if i == BAD else encode(natural(40, 48, seed=i), quality=90)
        path = root / 'all' / ('a' if i % 2 else 'b') / f'{i:02}.jpg'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    state = {f'backbone.{name}': tensor for name, tensor in network.state_dict().items()}
    torch.save({'state_dict': state}, root / 'weights.pth')
    return root


def ttl(*words):
    return main([*map(str, words), '--workers', '0'])


def weights(photos):
    return '--weights', photos / 'weights.pth'


@pytest.fixture(scope='module')
def embedded(photos):
    assert ttl('embed', photos / 'all', *weights(photos), '--out', photos / 'e.safetensors') == 0
    return photos / 'e.safetensors'


def test_features_are_those_of_an_own_forward_pass_in_every_format(photos, network, embedded):
    (photos / 'good').mkdir()
    found = read_embedding(embedded, photos / 'all')
    assert len(found) == COUNT - 1
    assert found.broken == (f'a/{BAD:02}.jpg',)
    shutil.copytree(photos / 'all', photos / 'good/all')
    (photos / f'good/all/a/{BAD:02}.jpg').unlink()
    dataset = labeled_folder(photos / 'good/all', 32)
    batch = default_collate([dataset[i] for i in range(len(dataset))])['inputs'].flip(1).float()
    mean = torch.tensor([123.675, 116.28, 103.53]).view(3, 1, 1)
    std = torch.tensor([58.395, 57.12, 57.375]).view(3, 1, 1)
    with torch.no_grad():
        expected = network((batch - mean) / std)[-1].mean((2, 3)).numpy()
    assert found.paths == [dataset.names[i] for i in range(len(dataset))]
    np.testing.assert_allclose(found.features, expected, rtol=1e-4, atol=1e-5)
    for ending in ('npy', 'csv', 'parquet'):
        out = photos / f'e.{ending}'
        assert ttl('embed', photos / 'all', *weights(photos), '--out', out) == 0
        again = read_embedding(out, photos / 'all')
        assert again.paths == found.paths
        np.testing.assert_allclose(again.features, found.features, rtol=1e-6)
        assert not list(photos.glob('*.features'))
    table = pyarrow.parquet.read_table(photos / 'e.parquet')
    assert table.column_names == ['path', 'bytes', 'width', 'height', 'x', 'y', 'embedding']
    sizes = [(photos / 'all' / path).stat().st_size for path in found.paths]
    assert table['bytes'].to_pylist() == sizes
    assert set(zip(*(table[side].to_pylist() for side in ('width', 'height')))) == {(48, 40)}


def test_an_existing_table_and_unknown_endings_are_refused(photos, embedded, capsys):
    before = (photos / 'weights.pth').read_bytes()
    for out, reason in ((photos / 'weights.pth', 'ending'), (photos / 'x.csv', 'exists')):
        (photos / 'x.csv').write_text('mine')
        assert ttl('embed', photos / 'all', *weights(photos), '--out', out) == 2
        assert reason in capsys.readouterr().err
    assert (photos / 'x.csv').read_text() == 'mine'
    assert (photos / 'weights.pth').read_bytes() == before


def test_the_map_of_a_file_and_of_images(photos, embedded, browser, tmp_path):
    data = ('--data', photos / 'all')
    sources = (embedded, *data), (photos / 'weights.pth', *data), (photos / 'all', *weights(photos))
    for number, words in enumerate(sources):
        out = tmp_path / str(number)
        assert ttl('map', *words, '--method', 'pca', '--out', out) == 0
        with opened(browser, out / 'index.html') as tab:
            assert tab.evaluate('ttlMap.count()') == COUNT - 1


def test_images_that_are_not_where_a_file_says_are_asked_for(photos, embedded, tmp_path, capsys):
    for words, reason in (
        (('map', embedded), 'does not exist: name the folder of the images with --data'),
        (('map', photos / 'weights.pth'), 'if it is a checkpoint, name the images with --data'),
        (('map', photos / 'all'), 'name --weights FILE as well'),
        (('search', photos / 'all/b/00.jpg', '--in', embedded), 'does not exist: name the folder'),
    ):
        assert ttl(*words, '--out', tmp_path / 'out') == 2
        assert reason in capsys.readouterr().err


def test_search_finds_what_a_loop_finds(photos, embedded, capsys):
    found = read_embedding(embedded, photos / 'all')
    rows = found.features / np.linalg.norm(found.features, axis=1, keepdims=True)
    order = np.argsort(-(rows @ rows[0]), kind='stable')
    query = photos / 'all' / found.paths[0]
    in_file = ('--in', embedded, '--data', photos / 'all', '--number', 5)
    assert ttl('search', query, *in_file) == 0
    lines = capsys.readouterr().out.split('\n')[:5]
    assert [line.split()[1] for line in lines] == [found.paths[i] for i in order[1:6]]
    other = photos / 'other.jpg'
    shutil.copy(query, other)  # not in the embedding: its features are computed
    assert ttl('search', other, *in_file) == 2
    assert '--weights' in capsys.readouterr().err
    page = photos / 'found'
    assert ttl('search', other, *in_file, *weights(photos), '--out', page) == 0
    out = capsys.readouterr().out
    assert out.startswith(f'1.0000  {found.paths[0]}\n')
    assert (page / 'index.html').exists()


def test_select_writes_a_list_that_training_takes(photos, embedded, tmp_path):
    found = read_embedding(embedded, photos / 'all')
    in_file = (embedded, '--data', photos / 'all')
    for words in ([], ['--outliers'], ['--density', '1']):
        out = tmp_path / f'{len(words)}{words[:1]}.txt'
        assert ttl('select', *in_file, '--number', 6, *words, '--out', out) == 0
        names = out.read_text().split('\n')[:-1]
        assert len(set(names)) == 6
        assert set(names) <= set(found.files())
        assert try_images(find_images([out])).bad == []


@pytest.fixture
def copied(photos, tmp_path):
    """The readable photos, two exact copies, two altered ones, and a test folder with a leak."""
    root = tmp_path / 'copied'
    shutil.copytree(photos / 'all', root)
    (root / f'a/{BAD:02}.jpg').unlink()
    shutil.copy(root / 'b/00.jpg', root / 'copy_of_00.jpg')
    shutil.copy(root / 'b/00.jpg', root / 'again_00.jpg')
    for name in ('b/02.jpg', 'a/03.jpg'):
        image = cv2.imread(str(root / name))
        cv2.imwrite(str(root / f'low_{name[2:]}'), image, [cv2.IMWRITE_JPEG_QUALITY, 85])
    (tmp_path / 'test').mkdir()
    shutil.copy(root / 'a/07.jpg', tmp_path / 'test/leak.jpg')
    (tmp_path / 'test/new.jpg').write_bytes(encode(natural(40, 48, seed=99)))
    return root


def test_duplicates_leaks_and_a_clean_list(photos, copied, tmp_path, capsys):
    out = tmp_path / 'out'
    words = ('--against', tmp_path / 'test', *weights(photos), '--threshold', '0.95')
    assert ttl('duplicates', copied, *words, '--out', out) == 0
    rows = list(csv.DictReader((out / 'duplicates.csv').read_text().splitlines()))
    kinds = {row['file'].rpartition('/')[2]: row['kind'] for row in rows}
    exact = {'00.jpg', 'copy_of_00.jpg', 'again_00.jpg'}
    assert sorted(kinds.pop(name) for name in exact) == ['exact copy', 'exact copy', 'stays']
    assert kinds == {
        '02.jpg': 'stays', 'low_02.jpg': 'near duplicate',
        '03.jpg': 'stays', 'low_03.jpg': 'near duplicate',
        'leak.jpg': 'stays', '07.jpg': 'also in the other images',
    }  # fmt: skip
    clean = (out / 'clean.txt').read_text().split('\n')[:-1]
    assert len(clean) == COUNT - 1 - 1  # without the broken and the leaked one
    assert str(copied / 'a/07.jpg') not in clean
    assert try_images(find_images([out / 'clean.txt'])).bad == []  # as training opens it
    assert '1 image is also among the 2 other images' in capsys.readouterr().out
    assert (out / 'index.html').exists()


def test_a_list_keeps_the_labels_of_an_evaluation(copied, tmp_path):
    for name in ('again_00.jpg', 'copy_of_00.jpg'):
        (copied / name).rename(copied / 'a' / name)
    for path in copied.glob('low*'):
        path.unlink()
    assert ttl('duplicates', copied, '--out', tmp_path / 'exact') == 0
    (tmp_path / 'link').symlink_to(copied)
    clean = str(tmp_path / 'exact/clean.txt')
    for root in (copied, tmp_path / 'link'):
        dataset = ImageFolder(str(root), [], clean, with_label=True)
        assert dataset.metainfo['classes'] == ('a', 'b')
        folders = [Path(name).parent.name for name in dataset.names]
        assert [('a', 'b')[label] for label in dataset.labels] == folders
    with pytest.raises(UserError, match='lies outside'):
        ImageFolder(str(tmp_path / 'test'), [], clean, with_label=True)


def test_images_in_an_archive_are_looked_at_as_well(photos, copied, tmp_path):
    (tmp_path / 'shards').mkdir()
    with tarfile.open(tmp_path / 'shards/0.tar', 'w') as shard:
        shard.add(copied, arcname='.')
    shards, expected = tmp_path / 'shards', tmp_path / 'files.csv'
    for source, out in ((shards, tmp_path / 'shards.csv'), (copied, expected)):
        assert ttl('embed', source, *weights(photos), '--out', out) == 0
    found, files = read_embedding(tmp_path / 'shards.csv'), read_embedding(expected)
    same = [found.paths.index(f'0.tar/{path}') for path in files.paths]
    assert len(set(same)) == len(found) == len(files)
    np.testing.assert_allclose(found.features[same], files.features, rtol=1e-5)
    out, limit = tmp_path / 'out', ('--threshold', '0.95')
    assert ttl('duplicates', shards, *weights(photos), *limit, '--out', out) == 0
    assert len((out / 'clean.txt').read_text().splitlines()) == COUNT - 1
    assert try_images(find_images([out / 'clean.txt'])).bad == []
    assert ttl('map', shards, *weights(photos), '--method', 'pca', '--out', tmp_path / 'map') == 0


def test_exact_copies_need_no_weights(copied, tmp_path, capsys):
    assert ttl('duplicates', copied, '--out', tmp_path / 'exact') == 0
    assert '1 group of exact copies among 27 images' in capsys.readouterr().out
    assert len((tmp_path / 'exact/clean.txt').read_text().split('\n')) == 25 + 1


def test_the_threshold_is_found_with_altered_copies(photos, copied, tmp_path, capsys):
    assert ttl('duplicates', copied, *weights(photos), '--out', tmp_path / 'found') == 0
    said = capsys.readouterr().out
    assert 'of the altered copies of your images reach it' in said
