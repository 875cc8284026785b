"""Folders of images."""

import pytest

from tests.helpers.images import encode, natural


@pytest.fixture
def nested_images(tmp_path):
    """Five images in nested folders and of mixed formats, among files that are no images."""
    files = {
        'b/two.PNG': 'PNG', 'a/one.jpg': 'JPEG', 'a/deep/er/three.webp': 'WEBP', 'top.bmp': 'BMP',
        'a/four.jpeg': 'JPEG',
    }  # fmt: skip
    for i, (name, kind) in enumerate(files.items()):
        path = tmp_path / 'images' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(natural(8, 10, seed=i), kind))
    for junk in ('a/notes.txt', 'b/.hidden.jpg', '.cache/thumb.jpg'):
        path = tmp_path / 'images' / junk
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b'x')
    return tmp_path / 'images'
