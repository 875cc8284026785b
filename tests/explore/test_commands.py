"""``ttl embed``, ``map``, ``duplicates``, ``search`` and ``select`` on files, from end to end."""

import csv
import json
import shutil

import cv2
import numpy as np
import pyarrow.parquet
import pytest
import torch
from mmengine.dataset import default_collate

from tests.helpers.browser import opened
from tests.helpers.checkpoints import random_network
from tests.helpers.images import encode, make_folder, natural
from ttl_mm.cli import main
from ttl_mm.evaluation.data import labelled_folder
from ttl_mm.explore.embedding import read_embedding

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
    dataset = labelled_folder(photos / 'good/all', 32)
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
    assert table.column_names == ['path', 'bytes', 'x', 'y', 'embedding']
    sizes = [(photos / 'all' / path).stat().st_size for path in found.paths]
    assert table['bytes'].to_pylist() == sizes


def test_an_existing_table_and_unknown_endings_are_refused(photos, embedded, capsys):
    before = (photos / 'weights.pth').read_bytes()
    for out, reason in ((photos / 'weights.pth', 'ending'), (photos / 'x.csv', 'exists')):
        (photos / 'x.csv').write_text('mine')
        assert ttl('embed', photos / 'all', *weights(photos), '--out', out) == 2
        assert reason in capsys.readouterr().err
    assert (photos / 'x.csv').read_text() == 'mine'
    assert (photos / 'weights.pth').read_bytes() == before


def test_the_map_of_a_file_and_of_images(photos, embedded, browser, tmp_path):
    for words in ((embedded, '--data', photos / 'all'), (photos / 'all', *weights(photos))):
        out = tmp_path / str(len(words))
        assert ttl('map', *words, '--method', 'pca', '--out', out) == 0
        with opened(browser, out / 'index.html') as tab:
            assert tab.evaluate('ttlMap.count()') == COUNT - 1


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
    found = read_embedding(embedded)
    for words in ([], ['--outliers'], ['--density', '1']):
        out = tmp_path / f'{len(words)}{words[:1]}.txt'
        assert ttl('select', embedded, '--number', 6, *words, '--out', out) == 0
        names = out.read_text().split('\n')[:-1]
        assert len(set(names)) == 6
        assert set(names) <= set(found.paths)


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
    assert 'a/07.jpg' not in clean
    assert '1 images are also among' in capsys.readouterr().out
    assert (out / 'index.html').exists()


def test_exact_copies_need_no_weights(copied, tmp_path, capsys):
    assert ttl('duplicates', copied, '--out', tmp_path / 'exact') == 0
    assert '1 groups of exact copies among 27 images' in capsys.readouterr().out
    assert len((tmp_path / 'exact/clean.txt').read_text().split('\n')) == 25 + 1


def test_the_threshold_is_found_with_altered_copies(photos, copied, tmp_path, capsys):
    assert ttl('duplicates', copied, *weights(photos), '--out', tmp_path / 'found') == 0
    said = capsys.readouterr().out
    assert 'of the altered copies of your images reach it' in said


def test_compare_answers_in_its_first_sentence(photos, tmp_path, capsys):
    data = make_folder(tmp_path / 'classes', count=20, size=32, widen=0)
    shutil.copy(photos / 'weights.pth', photos / 'same.pth')
    words = (photos / 'weights.pth', photos / 'same.pth', 'random', '--data', data, '--seeds', 2)
    seen = ('--seen', data / 'ant')
    assert ttl('compare', *words, *seen, '--out', tmp_path / 'out') == 0
    lines = capsys.readouterr().out.splitlines()
    verdicts = [line for line in lines if 'weights' in line]
    assert verdicts[0].startswith('No difference between weights.pth and same.pth')
    assert any('4 of the 12 test images were pre-trained on' in line for line in lines)
    found = json.loads((tmp_path / 'out/comparison.json').read_text())
    accuracy = found['accuracy']['knn']
    assert accuracy['weights.pth'] == accuracy['same.pth']
    assert accuracy.keys() == {'weights.pth', 'same.pth', 'random'}
    page = (tmp_path / 'out/index.html').read_text()
    assert page.index('No difference between weights.pth and same.pth') < page.index('Accuracy')
    assert ttl('compare', 'random', '--data', data, '--out', tmp_path / 'other') == 2
