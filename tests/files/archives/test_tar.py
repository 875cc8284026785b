"""Tar archives: the same files as Python's tarfile finds, and nothing of a hostile one."""

import io
import tarfile
import tracemalloc

import pytest

from ttl_mm.files.archives.tar import tar_entries

LONG = 'folder/' * 30 + 'long.jpg'


def archive(path, members, format=tarfile.PAX_FORMAT):
    with tarfile.open(path, 'w', format=format) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
            else:
                info.type = content.encode()
                info.linkname = '/etc/passwd'
                tar.addfile(info)
    return path


def entries_of(path):
    with open(path, 'rb') as file:
        return list(tar_entries(file))


@pytest.mark.parametrize('format', [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_finds_what_tarfile_finds_in_every_format(tmp_path, format):
    members = [
        ('a.jpg', b'1' * 700),
        ('./b/ä.png', b''),
        ('c', b'2' * 512),
        ('d', tarfile.DIRTYPE.decode()),
    ]
    if format != tarfile.USTAR_FORMAT:
        members.append((LONG, b'3'))
    path = archive(tmp_path / 'x.tar', members, format)
    with tarfile.open(path) as tar:
        files = [m for m in tar.getmembers() if m.isfile()]
        expected = [(m.name.removeprefix('./'), m.offset_data, m.size) for m in files]
    assert [entry[:3] for entry in entries_of(path)] == expected


def test_a_size_in_base_256_and_one_in_an_extended_header(tmp_path):
    path = archive(tmp_path / 'x.tar', [('a.jpg', b'1' * 700)])
    data = bytearray(path.read_bytes())
    data[124:136] = b'\x80' + (700).to_bytes(11, 'big')
    data[148:156] = b' ' * 8
    data[148:156] = b'%06o\0 ' % sum(data[:512])
    path.write_bytes(data)
    assert entries_of(path)[0].size == 700
    with tarfile.open(path, 'w', format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo('a.jpg')
        info.size, info.pax_headers = 5, {'size': '5'}
        tar.addfile(info, io.BytesIO(b'12345'))
    assert entries_of(path)[0].size == 5


def test_what_is_neither_file_nor_folder_or_leads_out_is_refused_by_name(tmp_path):
    for name, content, reason in [
        ('evil', tarfile.SYMTYPE.decode(), "'evil', at byte 0: it is a link"),
        ('evil', tarfile.LNKTYPE.decode(), 'a hard link'),
        ('evil', tarfile.CHRTYPE.decode(), 'a device'),
        ('evil', tarfile.FIFOTYPE.decode(), 'a named pipe'),
        ('evil', tarfile.GNUTYPE_SPARSE.decode(), 'a sparse file'),
        ('/etc/evil.jpg', b'1', 'leads out'),
        ('a/../../evil.jpg', b'1', 'leads out'),
        ('e' * 100_000 + '.jpg', b'1', 'an extended header of 10'),
        ('evil\nname.jpg', b'1', 'line break'),
    ]:
        path = archive(tmp_path / 'x.tar', [(name, content)])
        with pytest.raises(ValueError, match=reason):
            entries_of(path)
    sparse = {'GNU.sparse.major': '1', 'GNU.sparse.realsize': '9'}
    with tarfile.open(tmp_path / 'x.tar', 'w', format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo('evil.jpg')
        info.pax_headers = sparse
        tar.addfile(info)
    with pytest.raises(ValueError, match='sparse'):
        entries_of(tmp_path / 'x.tar')


def test_damage_is_named(tmp_path):
    path = archive(tmp_path / 'x.tar', [('a.jpg', b'1' * 700), ('b.jpg', b'2' * 700)])
    whole = path.read_bytes()
    last = whole.rstrip(b'\0')
    for content, reason in [
        (whole[:1000], 'claimed'),
        (whole[: 512 * 3], 'cut short'),
        (whole + whole, 'archives were joined'),
        (whole.replace(b'a.jpg', b'x.jpg'), 'its first member, at byte 0: this is no header'),
        (whole.replace(b'b.jpg', b'x.jpg'), "the member after 'a.jpg', at byte 1536: this is no h"),
        (whole[: len(last) + 100], 'claimed|cut short'),
        (b'GIF89a' + bytes(600), 'no header'),
        (b'', 'cut short'),
    ]:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=reason):
            entries_of(path)


def test_many_empty_members_are_read_one_by_one(tmp_path):
    """A million of them take no more memory at a time than one."""
    header = archive(tmp_path / 'one.tar', [('a.jpg', b'')]).read_bytes()[:512]
    (tmp_path / 'x.tar').write_bytes(header * 20_000 + bytes(1024))
    tracemalloc.start()
    with open(tmp_path / 'x.tar', 'rb') as file:
        assert sum(entry.size == 0 for entry in tar_entries(file)) == 20_000
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()
