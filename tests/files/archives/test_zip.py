"""Zip archives: files as zipfile reads them, and nothing of a hostile one."""

import stat
import zipfile
import zlib

import pytest

from ttl_mm.files.archives.zip import inflate, zip_entries


def entries_of(path):
    with open(path, 'rb') as file:
        return list(zip_entries(file))


def test_places_lead_to_the_contents(tmp_path):
    contents = {'a/b.jpg': b'1' * 5000, 'c.png': b'', 'd.cls': b'3'}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(tmp_path / 'x.zip', 'w', method) as archive:
            archive.mkdir('a')
            for name, content in contents.items():
                archive.writestr(name, content)
        data = (tmp_path / 'x.zip').read_bytes()
        found = {}
        for entry in entries_of(tmp_path / 'x.zip'):
            packed = data[entry.offset : entry.offset + entry.packed]
            found[entry.name] = inflate(packed, entry.size) if entry.method else packed
        assert found == contents


def test_hostile_and_damaged_archives_are_refused_by_name(tmp_path):
    path = tmp_path / 'x.zip'
    for name, method, reason in [
        ('../evil.jpg', zipfile.ZIP_STORED, 'leads out'),
        ('/evil.jpg', zipfile.ZIP_STORED, 'leads out'),
        ('evil.jpg', zipfile.ZIP_BZIP2, 'compression 12'),
    ]:
        with zipfile.ZipFile(path, 'w', method) as archive:
            archive.writestr(name, b'1' * 99)
        with pytest.raises(ValueError, match=f'evil.*{reason}'):
            entries_of(path)
    with zipfile.ZipFile(path, 'w') as archive:
        archive.writestr('a.jpg', b'1' * 99)
    whole = path.read_bytes()
    for content, reason in [
        (whole[:-5], 'no zip archive'),
        (whole.replace(b'a.jpg', b'\0.jpg'), 'a name of 0 characters'),
        (b'x' * 40 + whole[40:], 'no file begins'),
        (whole.replace((99).to_bytes(4, 'little'), (9999).to_bytes(4, 'little')), 'claimed'),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=reason):
            entries_of(path)


def test_joined_and_appended_archives_are_refused_since_files_would_be_lost(tmp_path):
    path, whole = tmp_path / 'x.zip', {}
    for name, comment in (('a.jpg', b''), ('b.jpg', b'two words')):
        with zipfile.ZipFile(path, 'w') as archive:
            archive.writestr(name, b'1' * 99)
            archive.comment = comment
        whole[name] = path.read_bytes()
        assert [entry.name for entry in entries_of(path)] == [name]
    for content in (whole['a.jpg'] + whole['b.jpg'], whole['a.jpg'] + b'x', whole['b.jpg'] + b'xx'):
        path.write_bytes(content)
        with pytest.raises(ValueError, match='archives were joined, or something was appended'):
            entries_of(path)
    path.write_bytes(b'#!/bin/sh\n' + whole['a.jpg'])  # one that unpacks itself
    entry = entries_of(path)[0]
    assert path.read_bytes()[entry.offset :][: entry.packed] == b'1' * 99


@pytest.mark.parametrize('kind', [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_links_and_devices_are_refused(tmp_path, kind):
    member = zipfile.ZipInfo('evil.jpg')
    member.create_system, member.external_attr = 3, (kind | 0o644) << 16
    with zipfile.ZipFile(tmp_path / 'x.zip', 'w') as archive:
        archive.writestr(member, '/etc/passwd')
    with pytest.raises(ValueError, match=r"'evil\.jpg': it is a link or a device"):
        entries_of(tmp_path / 'x.zip')


def test_more_files_than_allowed_are_refused_and_not_left_out(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / 'x.zip', 'w') as archive:
        for name in ('a.jpg', 'b.jpg'):
            archive.writestr(name, b'1')
    monkeypatch.setattr('ttl_mm.files.archives.zip.MAX_FILES', 1)
    with pytest.raises(ValueError, match='2 files, 1 are allowed'):
        entries_of(tmp_path / 'x.zip')


def test_a_bomb_unpacks_to_its_claimed_size_at_most():
    stream = zlib.compressobj(wbits=-15)
    packed = stream.compress(bytes(10**6)) + stream.flush()
    assert inflate(packed, 10**6) == bytes(10**6)
    for size, content in ((100, packed), (10**6, packed[:50]), (4, b'\xff' * 9)):
        with pytest.raises(ValueError, match=r'damaged|another size'):
            inflate(content, size)
