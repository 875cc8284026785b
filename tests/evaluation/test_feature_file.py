"""The file of features; what extraction writes to it is tested in test_features.py."""

import shutil
from collections import namedtuple

import pytest

from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import FeatureWriter


def test_a_full_disk_is_named_before_anything_is_written(tmp_path, monkeypatch):
    usage = namedtuple('usage', 'total used free')(0, 0, 1000)
    monkeypatch.setattr(shutil, 'disk_usage', lambda folder: usage)
    path = tmp_path / 'a.safetensors'
    with pytest.raises(UserError, match=r'a\.safetensors needs .* bytes, 1,000 are free'):
        FeatureWriter(path, {4: 16}, ['x.jpg'] * 20, ('a',), {}, 4)
    assert list(tmp_path.iterdir()) == []


def test_the_space_is_reserved_at_the_start(tmp_path):
    path = tmp_path / 'a.safetensors'
    FeatureWriter(path, {4: 2048}, ['x.jpg'] * 500, ('a',), {}, 100)
    status = path.with_name('a.safetensors.partial').stat()
    assert status.st_blocks * 512 >= status.st_size > 500 * 2048 * 4
