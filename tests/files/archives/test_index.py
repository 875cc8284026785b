"""The index of an archive finds every image by its name, and follows changes of the archive."""

import os
import tarfile

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from ttl_mm.errors import UserError
from ttl_mm.files.archives import member
from ttl_mm.files.archives.index import PARALLEL, archive_index, index_archives
from ttl_mm.files.archives.member import image_file_size, open_archive, read_image_file
from ttl_mm.files.archives.write_tar import write_tar

FILES = [
    ('a/1.cls', b'3'), ('a/1.jpg', b'one'), ('a/2.json', b'{"label": 5, "text": "x"}'),
    ('a/2.left.png', b'two'), ('a/2.right.png', b'three'), ('a/3.jpg', b''), ('a/._3.jpg', b'no'),
    ('notes.txt', b'no'),
]  # fmt: skip
IMAGES = {'a/1.jpg': b'one', 'a/2.left.png': b'two', 'a/2.right.png': b'three', 'a/3.jpg': b''}


def test_images_and_labels_are_found_by_name_and_the_archive_may_change(tmp_path):
    path = tmp_path / 'x.tar'
    write_tar(path, FILES)
    first = path.read_bytes()
    index = archive_index(path)
    assert index.names.read_text().split() == list(IMAGES)
    assert index.labels.tolist() == [3, 5, 5, -1]
    for name, content in IMAGES.items():
        assert read_image_file(f'{path}/{name}', 100) == content
        assert image_file_size(f'{path}/{name}') == len(content)
    for name in ('notes.txt', 'a/4.jpg'):
        with pytest.raises(FileNotFoundError, match='no such image'):
            read_image_file(f'{path}/{name}', 100)
    with pytest.raises(OSError, match='2 are allowed'):
        read_image_file(f'{path}/a/1.jpg', 2)
    write_tar(path, FILES)
    assert path.read_bytes() == first  # nothing but names and contents is in it
    write_tar(path, [('b.jpg', b'new')])
    open_archive.cache_clear()
    assert read_image_file(f'{path}/b.jpg', 100) == b'new'


@pytest.mark.parametrize('order', [1, -1])
def test_a_json_file_that_tells_no_label_leaves_that_of_the_other_file(tmp_path, order):
    files = [('1.cls', b'3'), ('1.jpg', b'one'), ('1.json', b'{"caption": "a cat"}')]
    write_tar(tmp_path / 'x.tar', files[::order])
    assert archive_index(tmp_path / 'x.tar').labels.tolist() == [3]


def test_a_damaged_index_is_made_again(tmp_path):
    write_tar(tmp_path / 'x.tar', FILES)
    names = archive_index(tmp_path / 'x.tar').names
    base = str(names).removesuffix('.txt')
    for ending in ('.places', '.labels', '.json'):
        with open(base + ending, 'wb') as file:
            file.write(b'damaged')
        assert archive_index(tmp_path / 'x.tar').places.shape == (5, 4)
    os.unlink(names)
    assert archive_index(tmp_path / 'x.tar').names.is_file()


def test_an_archive_that_is_opened_again_was_not_replaced_meanwhile(tmp_path, monkeypatch):
    """A process keeps few archives open; to open one again does not check its index again."""
    path = tmp_path / 'x.tar'
    write_tar(path, FILES)
    image = f'{path}/a/1.jpg'
    assert read_image_file(image, 100) == b'one'
    calls = []
    original = member.archive_index
    monkeypatch.setattr(member, 'archive_index', lambda p: calls.append(p) or original(p))
    open_archive.cache_clear()
    assert read_image_file(image, 100) == b'one'
    assert not calls
    write_tar(path, [('0.jpg', b'zero'), *FILES])
    open_archive.cache_clear()
    assert read_image_file(image, 100) == b'one'
    os.unlink(archive_index(path).places_file)
    open_archive.cache_clear()
    assert read_image_file(image, 100) == b'one'
    assert len(calls) == 2


def test_refused_archives_are_named(tmp_path):
    path = tmp_path / 'x.tar'
    for files, reason in [
        ([('a.txt', b'')], 'no image'),
        ([('a.jpg', b'1'), ('a.jpg', b'2')], "two files named 'a.jpg'"),
        ([('a.jpg', b'1'), ('a.cls', b'cat')], "'a.cls' is no label: b'cat'"),
        ([('a.jpg', b'1'), ('a.cls', b'1' * 70_000)], "'a.cls' has 70000 bytes"),
        (
            [('a.cls', b'1'), ('a.cls', b'2'), ('a.jpg', b'')],
            "'a.cls' has the label 2, .* 1: leave",
        ),
    ]:
        write_tar(path, files)
        with pytest.raises(UserError, match=f'x.tar: .*{reason}'):
            archive_index(path)
    with pytest.raises(UserError, match='cannot be read'):
        archive_index(tmp_path / 'missing.tar')


def member_of(name: str, content: bytes = b'', kind: bytes = tarfile.REGTYPE, **records) -> bytes:
    """A member as it lies in an archive."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, '/etc/passwd'
    info.pax_headers = {key.replace('_', '.'): value for key, value in records.items()}
    padding = bytes(-len(content) % 512)
    return info.tobuf(tarfile.PAX_FORMAT) + content + padding


GOOD, END = member_of('good.jpg', b'1' * 700), bytes(1024)


@pytest.mark.parametrize(
    ('content', 'member'),
    [
        (GOOD + member_of('/etc/evil.jpg', b'1') + END, "'/etc/evil.jpg'.* leads out"),
        (GOOD + member_of('a/../../evil.jpg') + END, "'a/../../evil.jpg'.* leads out"),
        (GOOD + member_of('evil.jpg', kind=tarfile.SYMTYPE) + END, "'evil.jpg'.* it is a link"),
        (GOOD + member_of('evil.jpg', kind=tarfile.LNKTYPE) + END, "'evil.jpg'.* a hard link"),
        (GOOD + member_of('evil.jpg', kind=tarfile.BLKTYPE) + END, "'evil.jpg'.* a device"),
        (GOOD + GOOD + END, "two files named 'good.jpg'"),
        (GOOD[:900], 'its first member, .*900|its first member.* claimed'),
        (GOOD, "it ends after 'good.jpg'.* cut short"),
        (GOOD + END + GOOD + END, "end mark after 'good.jpg'.* archives were joined"),
        (GOOD + member_of('evil.jpg', kind=tarfile.GNUTYPE_SPARSE) + END, "'evil.jpg'.* sparse"),
        (GOOD + member_of('e.jpg', GNU_sparse_major='1') + END, "after 'good.jpg'.* sparse"),
        (GOOD + member_of('e' * 100_000 + '.jpg') + END, "after 'good.jpg'.* extended header of 1"),
    ],
)
def test_shards_of_strangers_are_refused_by_shard_and_member(tmp_path, content, member):
    (tmp_path / 'x.tar').write_bytes(content)
    with pytest.raises(UserError, match=f'x.tar: .*{member}') as refused:
        archive_index(tmp_path / 'x.tar')
    assert len(str(refused.value)) < 500 + len(str(tmp_path))


def test_parquet_holds_images_as_datasets_store_them(tmp_path):
    path = tmp_path / 'x.parquet'
    jpeg, png = b'\xff\xd8 one', b'\x89PNG two'
    struct = [{'bytes': jpeg, 'path': 'cat.webp'}, {'bytes': png, 'path': None}, None]
    odd = [{'bytes': jpeg, 'path': b'cat.webp'}, {'bytes': png, 'path': b'\xff'}, None]
    for column in (struct, [jpeg, png, None], odd):
        table = pyarrow.table({'image': column, 'label': [4, 6, 1]})
        pyarrow.parquet.write_table(table, path)
        open_archive.cache_clear()
        index = archive_index(path)
        first = '000000000.webp' if column is struct else '000000000.jpg'
        assert index.names.read_text().split() == [first, '000000001.png']
        assert index.labels.tolist() == [4, 6]
        assert read_image_file(f'{path}/{first}', 100) == jpeg
        os.utime(path, ns=(0, 0))
    for table, reason in [(pyarrow.table({'text': ['a']}), 'no column of images, only text')]:
        pyarrow.parquet.write_table(table, path)
        with pytest.raises(UserError, match=reason):
            archive_index(path)
    path.write_bytes(b'PAR1 no')
    with pytest.raises(UserError, match='no parquet file'):
        archive_index(path)


@pytest.mark.parametrize('nested', [False, True])
def test_one_image_that_a_parquet_file_repeats_fills_neither_memory_nor_disk(
    tmp_path, monkeypatch, nested
):
    monkeypatch.setattr('ttl_mm.files.archives.parquet.MORE', 2**20)
    path, cache = tmp_path / 'bomb.parquet', tmp_path / 'cache'
    monkeypatch.setenv('XDG_CACHE_HOME', str(cache))
    for size, count, reason in ((2**16, 1000, 'images unpack to more'), (2**24, 1, 'claims to')):
        images = pyarrow.array([bytes(size)] * min(count, 100), pyarrow.binary())
        column = pyarrow.StructArray.from_arrays([images], ['bytes']) if nested else images
        table = pyarrow.table({'image': column})
        pyarrow.parquet.write_table(pyarrow.concat_tables([table] * 10), path, compression='zstd')
        assert path.stat().st_size < 2**14
        with pytest.raises(UserError, match=reason):
            archive_index(path)
        assert sum(p.stat().st_size for p in cache.rglob('*')) < 2**16


def test_many_new_archives_are_read_at_once_with_the_same_result(tmp_path, monkeypatch):
    paths = [tmp_path / f'{i}.tar' for i in range(PARALLEL)]
    for i, path in enumerate(paths):
        write_tar(path, [(f'{i}.jpg', b'1' * i)])
    sizes = [int(index.places[2, 0]) for index in index_archives(paths)]
    assert sizes == list(range(PARALLEL))
    again = [np.array(index.places) for index in index_archives(paths)]
    assert [int(places[2, 0]) for places in again] == sizes
