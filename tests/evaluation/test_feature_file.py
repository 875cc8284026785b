import json
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.helpers.odd_files import odd_files
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import (
    FeatureWriter,
    is_feature_file,
    read_features,
    seal_of,
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'a.safetensors'


def options(path, about=None):
    return path, {2: 3, 4: 2}, ['a', 'b', 'c'], ['x', 'y'], about or {'weights': 'w'}


def fill(writer, value=None):
    for batch, rows in ((1, [2]), (0, [0, 1])):
        stages = {s: np.repeat(rows, d).reshape(-1, d) for s, d in ((2, 3), (4, 2))}
        if value is not None:
            stages[4] = np.full((len(rows), 2), value)
        writer.write(batch, stages, np.array(rows) % 2)
    writer.finish()


def test_batches_of_any_order_make_the_file(path):
    writer = FeatureWriter(*options(path), batch_size=2)
    writer.write(1, {2: np.full((1, 3), 5), 4: np.full((1, 2), 6)}, np.array([1]))
    assert FeatureWriter(*options(path), batch_size=2).missing() == [0]
    assert FeatureWriter(*options(path), batch_size=3).missing() == [
        0
    ]  # other batches: starts over
    writer = FeatureWriter(*options(path), batch_size=2)
    assert writer.missing() == [0, 1]
    assert not path.exists()
    fill(writer)
    found = read_features(path, 2)
    assert found.features.tolist() == [[0] * 3, [1] * 3, [2] * 3]
    assert (found.labels.tolist(), found.paths) == ([0, 1, 0], ['a', 'b', 'c'])
    assert (found.classes, found.about) == (['x', 'y'], {'weights': 'w', 'stage': 2})
    assert read_features(path).features.shape == (3, 2)
    with pytest.raises(UserError, match='no stage 3: it has stage2, stage4'):
        read_features(path, 3)
    assert is_feature_file(path)
    assert load_file(path)['labels'].tolist() == [0, 1, 0]  # it is a safetensors file


def test_every_bit_is_sealed_and_damage_is_named(path):
    fill(FeatureWriter(*options(path), batch_size=2))
    whole = path.read_bytes()
    for position in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=r'a\.safetensors (is|cannot|was)'):
            read_features(path)
    for damaged in (b'', whole[:4], whole[:-1], whole + b'x', b'\xff' * 8 + whole):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match='is no whole feature file'):
            read_features(path)
    path.write_bytes(whole.replace(b'features 2', b'features 1'))
    with pytest.raises(UserError, match=r'made by version 0\.1 and has no seal: make it again'):
        read_features(path)


def sealed(path, change):
    """A file as a stranger could make it: other content, and a seal that fits."""
    fill(FeatureWriter(*options(path), batch_size=2))
    raw = path.read_bytes()
    length = struct.unpack('<Q', raw[:8])[0]
    header, body = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    header['__metadata__']['sha256'] = '0' * 64
    body = change(header, body) or body
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack('<Q', len(text)) + text + body)
    with path.open('rb') as file:
        seal = seal_of(file, '0' * 64)
    path.write_bytes(path.read_bytes().replace(b'0' * 64, seal.encode()))


CHANGES = {
    'no classes': lambda h, b: h['__metadata__'].pop('classes') and None,
    'classes that are none': lambda h, b: h['__metadata__'].update(classes='{}'),
    'nested classes': lambda h, b: h['__metadata__'].update(classes='[' * 5000),
    'fewer classes': lambda h, b: h['__metadata__'].update(classes='["x"]'),
    'no labels': lambda h, b: h.update(other=h.pop('labels')),
    'labels as bytes': lambda h, b: h['labels'].update(dtype='U8', shape=[24]),
    'a flat stage': lambda h, b: h['stage4'].update(shape=[6]),
    'more rows': lambda h, b: h['stage4'].update(shape=[6, 1]),
    'an odd stage': lambda h, b: h.update(stageX=h.pop('stage4')),
    'NaN': lambda h, b: b[:36] + np.full(6, np.nan, 'f4').tobytes() + b[60:],
    'a label of -3': lambda h, b: b[:60] + np.array([-3, 0, 0], 'i8').tobytes() + b[84:],
    'one name less': lambda h, b: b[:-5] + b'aaaaa',
}


def test_files_of_strangers_with_a_seal_are_checked_too(path):
    sealed(path, lambda header, body: None)
    assert read_features(path).features.shape == (3, 2)
    for change in CHANGES.values():
        sealed(path, change)
        with pytest.raises(
            UserError, match=r'a\.safetensors (is no whole|has features that are not)'
        ):
            read_features(path)


def test_a_kill_after_the_seal_and_names_that_are_no_text_do_not_matter(path):
    names = ['a', 'b', 'c\udcff']  # as Python spells a name that is not UTF-8
    arguments = (path, {4: 2}, names, ['x'], {})
    writer = FeatureWriter(*arguments, batch_size=3)
    writer.write(0, {4: np.ones((3, 2))}, np.zeros(3, int))
    partial, progress = (path.with_name(path.name + end) for end in ('.partial', '.progress'))
    before = progress.read_bytes()
    writer.finish()
    path.rename(partial)
    progress.write_bytes(before)
    writer = FeatureWriter(*arguments, batch_size=3)
    assert writer.missing() == []
    writer.finish()
    assert read_features(path).paths == names


def test_commands_refuse_pipes_damage_and_nan_in_one_line(path, tmp_path, capsys):
    for _, odd in odd_files(tmp_path):
        with pytest.raises(UserError, match='cannot be read as a feature file: it is'):
            read_features(odd)
    fill(FeatureWriter(*options(path), batch_size=2), np.nan)
    for command in (['analyze', str(path)], ['eval', str(path), str(path)]):
        assert main([*command, '--out', str(tmp_path / 'out')]) == 2
        assert 'features that are not finite, of ' in capsys.readouterr().err
