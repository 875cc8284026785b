"""What mmengine and mmcv read once ttl_mm.registry is imported."""

import pickle

import mmcv
import mmengine.fileio as fileio
import pytest
from mmcv.transforms import LoadImageFromFile
from mmengine.dataset import BaseDataset

from tests.helpers.checkpoints import RunsCode
from tests.helpers.odd_files import odd_files
from ttl_mm.errors import UserError


def test_annotations_are_data(tmp_path):
    trace = tmp_path / 'ran'
    files = {
        'a.yaml': f'!!python/object/apply:os.mkdir [{trace}]'.encode(),
        'b.yml': f'data_list: !!python/object/new:os.mkdir [{trace}]'.encode(),
        'c.pkl': pickle.dumps(RunsCode(trace)),
        'd.pickle': pickle.dumps(RunsCode(trace)),
        'e.json': b'[' * 5000,
        'f.yaml': b'[' * 5000,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match='refused'):
            fileio.load(tmp_path / name)
        with pytest.raises(UserError, match='refused'):
            BaseDataset(ann_file=str(tmp_path / name))
    assert not trace.exists()
    fileio.dump({'a': [1, 2]}, tmp_path / 'good.yaml')
    assert fileio.load(tmp_path / 'good.yaml') == {'a': [1, 2]}
    (tmp_path / 'good.json').write_bytes(b'\xef\xbb\xbf{"a": [NaN]}')
    assert list(fileio.load(tmp_path / 'good.json')) == ['a']
    fileio.dump([1], tmp_path / 'results.pkl')  # what mmengine's DumpResults does


def test_mappings_that_are_merged_again_and_again_are_refused(tmp_path):
    path = tmp_path / 'a.yaml'
    path.write_text('a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: {<<: [*a, {z: 3}]}\n')
    assert fileio.load(path) == {'a': {'x': 1}, 'b': {'x': 1, 'y': 2}, 'c': {'x': 1, 'z': 3}}
    lines = ['a0: &a0 {x: 1}']
    for i in range(1, 10):
        lines.append(f'a{i}: &a{i} {{<<: [{", ".join(10 * [f"*a{i - 1}"])}]}}')
    path.write_text('\n'.join(lines))
    with pytest.raises(UserError, match='merges mappings again and again'):
        fileio.load(path)


def test_pipes_and_devices_in_the_place_of_files_are_refused_at_once(tmp_path):
    for kind, path in odd_files(tmp_path):
        for read in (fileio.get, fileio.get_text, fileio.FileClient('disk').get, mmcv.imread,
                     lambda path: LoadImageFromFile()({'img_path': str(path)}),
                     lambda path: fileio.get_local_path(path).__enter__()):  # fmt: skip
            with pytest.raises(UserError, match=f'cannot be read: it is {kind}'):
                read(str(path))
    with pytest.raises(FileNotFoundError):
        fileio.get(tmp_path / 'none')
