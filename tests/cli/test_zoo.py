import hashlib
import json

import pytest

from ttl_mm.cli import main

DATA = b'weights' * 1000


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """`ttl zoo` over one file:// entry and one entry without a hash."""
    source = tmp_path / 'net.pth'
    source.write_bytes(DATA)
    common = {'kind': 'backbone', 'license': 'MIT', 'about': 'a test', 'backbone': None}
    result = {'metric': 'kNN top-1', 'value': 90.1, 'source': 'measured', 'command': 'ttl knn'}
    published = {
        'file': 'net.pth', 'size': len(DATA), 'sha256': hashlib.sha256(DATA).hexdigest(),
        'urls': [source.as_uri()], 'results': [result],
    }  # fmt: skip
    unhashed = {'file': 'old.pth', 'size': None, 'sha256': None, 'urls': ['file:///no']}
    entries = {'net': common | published, 'old': common | unhashed}
    (tmp_path / 'manifest.json').write_text(json.dumps(entries))
    monkeypatch.setenv('TTL_ZOO_MANIFEST', str(tmp_path / 'manifest.json'))
    monkeypatch.setenv('TTL_ZOO_CACHE', str(tmp_path / 'cache'))
    return tmp_path


def test_list_get_verify(zoo, capsys):
    assert main(['zoo', 'list']) == 0
    listed = capsys.readouterr().out
    assert 'net  (0.0 MB, missing)' in listed
    assert 'kNN top-1 90.1 (measured: ttl knn)' in listed
    assert 'no published hash' in listed
    assert main(['zoo', 'verify', 'net']) == 1
    assert main(['zoo', 'get', 'net']) == 0
    path = zoo / 'cache' / 'net.pth'
    assert capsys.readouterr().out.splitlines()[-1] == str(path)
    assert path.read_bytes() == DATA
    assert main(['zoo', 'verify']) == 0
    path.write_bytes(DATA[:-1])
    assert main(['zoo', 'verify']) == 1
    assert 'net  damaged: it has 6999 bytes instead of 7000' in capsys.readouterr().out


def test_refusals_are_one_line(zoo, capsys):
    assert main(['zoo', 'get', 'old']) == 2
    assert main(['zoo', 'get', 'olt']) == 2
    lines = capsys.readouterr().err.splitlines()
    assert 'fetch it with --allow-unhashed' in lines[0]
    assert "no 'olt': did you mean old?" in lines[1]
