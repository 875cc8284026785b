import json

import pytest

from tests.helpers.server import entry
from ttl_mm.errors import UserError
from ttl_mm.zoo.manifest import Entry, read_manifest

BAD_FIELDS = {
    'file': ['../net.pth', '/net.pth', 'a/b.pth', '.pth', 'net.exe', 'net.pth\n'],
    'name': ['../x', '', 'A B'],
    'urls': [(), ('ftp://host/x',), ('file://host/x',), ('../x.pth',), ('/abs.pth',), ('http:///x',)],
    'kind': ['everything'],
    'size': [0, -1, '5', True, None],
    'sha256': ['abc', 'G' * 64, None],
}  # fmt: skip


def test_bad_entries_and_manifests_that_cannot_be_read_are_named(tmp_path):
    fields = {k: v for k, v in vars(entry('https://host/net.pth')).items() if k != 'folder'}
    Entry(**fields)
    for field, values in BAD_FIELDS.items():
        for value in values:
            with pytest.raises(UserError, match='correct the manifest'):
                Entry(**{**fields, field: value})
    with pytest.raises(UserError, match=r'none\.json cannot be read: No such file'):
        read_manifest(tmp_path / 'none.json')
    for text in ('{', '[]', '{"net": {"file": "net.pth"}}'):
        (tmp_path / 'bad.json').write_text(text)
        with pytest.raises(UserError, match=r'bad\.json is not valid'):
            read_manifest(tmp_path / 'bad.json')


def test_the_british_key_of_version_0_1_is_read(tmp_path):
    fields = {
        k: v for k, v in vars(entry('https://host/net.pth')).items() if k not in ('folder', 'name')
    }
    old = {'licence' if key == 'license' else key: value for key, value in fields.items()}
    path = tmp_path / 'manifest.json'
    path.write_text(json.dumps({'net': old | {'licence': 'MIT'}}))
    assert read_manifest(path)['net'].license == 'MIT'
    path.write_text(json.dumps({'net': old | {'license': 'MIT'}}))
    with pytest.raises(UserError, match='an entry has both license and licence'):
        read_manifest(path)
