"""Nothing in a checkpoint runs, and each refusal says why."""

import argparse
import pickle
import random
import struct
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.helpers.checkpoints import RunsCode
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.errors import UserError


def test_pickle_with_code_is_refused(tmp_path):
    path, trace = tmp_path / 'evil.pth', tmp_path / 'ran'
    content = {'state_dict': {'conv1.weight': torch.zeros(1)}, 'meta': RunsCode(trace)}
    for zipped in (True, False):
        torch.save(content, path, _use_new_zipfile_serialization=zipped)
        with pytest.raises(UserError, match=r'refused: .* run or build \w*\.?mkdir'):
            read_checkpoint(path)
    for plain in (path, tmp_path / 'evil.pkl'):
        plain.write_bytes(pickle.dumps({'model': RunsCode(trace)}))
        with pytest.raises(UserError, match='evil'):
            read_checkpoint(plain)
    assert not trace.exists()


def test_log_entries_of_mmengine_do_not_matter(tmp_path):
    from mmengine.logging import HistoryBuffer

    message_hub = {'log': HistoryBuffer([1.0, 2.0], [1, 1]), 'lr': np.float64(0.1)}
    content = {
        'state_dict': {'conv1.weight': torch.ones(2)},
        'message_hub': message_hub,
        'args': argparse.Namespace(lr=0.1),
        'rng': np.arange(3),
    }
    torch.save(content, tmp_path / 'epoch_1.pth')
    found = read_checkpoint(tmp_path / 'epoch_1.pth')
    assert torch.equal(found['state_dict']['conv1.weight'], torch.ones(2))
    assert not isinstance(found['message_hub']['log'], HistoryBuffer)


@pytest.fixture
def saved(tmp_path):
    torch.save({'a': torch.zeros(1000)}, tmp_path / 'good.pth')
    return tmp_path / 'good.pth'


def test_zip_bombs_are_refused(saved, tmp_path):
    bomb = tmp_path / 'bomb.pth'
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(bomb, 'w') as new:
        for info in old.infolist():
            if info.filename.endswith('data/0'):
                new.writestr(info.filename, bytes(10_000_000), zipfile.ZIP_DEFLATED)
            else:
                new.writestr(info.filename, old.read(info))
    assert bomb.stat().st_size < 50_000
    with pytest.raises(UserError, match=r'data/0.* is compressed \(to 10000000 bytes\)'):
        read_checkpoint(bomb)
    # the other kind of bomb: a stored entry listed many times in the directory of the archive
    raw = saved.read_bytes()
    end = raw.rindex(b'PK\x05\x06')
    n, size, start = struct.unpack('<HII', raw[end + 10 : end + 20])
    directory = raw[start : start + size]
    tail = struct.pack('<4sHHHHIIH', b'PK\x05\x06', 0, 0, n * 9, n * 9, size * 9, start, 0)
    (tmp_path / 'overlap.pth').write_bytes(raw[:start] + directory * 9 + tail)
    with pytest.raises(UserError, match='entries claim'):
        read_checkpoint(tmp_path / 'overlap.pth')


def test_truncated_files_and_path_traversal_are_refused(saved):
    whole = saved.read_bytes()
    for keep in (0.0, 0.3, 0.99):
        saved.write_bytes(whole[: int(len(whole) * keep)])
        with pytest.raises(UserError, match=r'good\.pth'):
            read_checkpoint(saved)
    for name in ('../../evil', '/etc/evil', 'a/..\\evil'):
        saved.write_bytes(whole)
        with zipfile.ZipFile(saved, 'a') as archive:
            archive.writestr(name, b'x')
        with pytest.raises(UserError, match='refused: it names an entry'):
            read_checkpoint(saved)


@pytest.mark.parametrize('kind', ['zip', 'legacy', 'safetensors', 'pkl'])
def test_random_damage_is_refused_or_harmless(tmp_path, kind):
    """120 mutants of a good file: a UserError or tensors, never another exception."""
    tensors = {'conv1.weight': torch.ones(4, 3, 3, 3), 'layer1.0.conv1.weight': torch.ones(4)}
    path = tmp_path / ('a.' + {'zip': 'pth', 'legacy': 'pth'}.get(kind, kind))
    if kind == 'safetensors':
        save_file(tensors, path)
    elif kind == 'pkl':
        path.write_bytes(pickle.dumps({'model': {n: t.numpy() for n, t in tensors.items()}}))
    else:
        torch.save(tensors, path, _use_new_zipfile_serialization=kind == 'zip')
    good, rng, refused = path.read_bytes(), random.Random(0), 0
    for i in range(120):
        data = bytearray(good)
        for _ in range(1 + 19 * (i % 2)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data[: rng.randrange(len(data))] if i % 5 == 0 else data)
        try:
            load_backbone_state(path)
        except UserError:
            refused += 1
    assert refused > 40


def test_array_pickle_reads_numbers_only_and_no_bomb(tmp_path):
    path = tmp_path / 'a.pkl'
    path.write_bytes(pickle.dumps({'model': {'w': np.arange(6.0).reshape(2, 3)}}))
    assert torch.equal(read_checkpoint(path)['model']['w'], torch.arange(6.0).double().view(2, 3))

    class Claims:
        def __reduce__(self):
            return np.ndarray, ((1 << 33,), 'float32', bytearray(4), 0, (0,))

    for bad, message in ((np.array(['text']), 'no array of numbers'), (Claims(), 'claims a part')):
        path.write_bytes(pickle.dumps({'model': {'w': bad}}))
        with pytest.raises(UserError, match=message):
            read_checkpoint(path)


def test_wrong_content_lying_headers_and_missing_files_are_refused(tmp_path):
    torch.save([torch.zeros(1)], tmp_path / 'list.pth')
    with pytest.raises(UserError, match='holds a list'):
        read_checkpoint(tmp_path / 'list.pth')
    with pytest.raises(UserError, match='not a file'):
        read_checkpoint(tmp_path / 'none.pth')
    path = tmp_path / 'bad.safetensors'
    for claim in (2**63, 50_000_000, 0):
        path.write_bytes(struct.pack('<Q', claim) + b'{}')
        with pytest.raises(UserError, match='safetensors'):
            read_checkpoint(path)
