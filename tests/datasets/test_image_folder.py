import pytest

from ttl_mm.datasets.decode import BadImageError, LoadImage
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.errors import UserError
from ttl_mm.registry import DATASETS


def test_pipeline_gets_path_and_index(nested_images):
    folder = ImageFolder(str(nested_images), pipeline=[lambda results: results])
    index = SampleIndex(2, epoch=4, seed=9)
    assert folder[index] == {'img_path': f'{nested_images}/a/one.jpg', 'sample_idx': index}
    assert folder[index]['sample_idx'].epoch == 4  # the index knows its draws
    folder = DATASETS.build({'type': 'ttl_mm.ImageFolder', 'data_root': str(nested_images)})
    assert len(folder) == 5
    assert folder[3]['sample_idx'] == 3


def test_sub_folders_are_classes_numbered_by_name(nested_images, tmp_path):
    with pytest.raises(UserError, match=r'top\.bmp lies in no sub-folder'):
        ImageFolder(str(nested_images), with_label=True)
    (nested_images / 'top.bmp').unlink()
    folder = ImageFolder(str(nested_images), with_label=True)
    assert folder.metainfo['classes'] == ('a', 'b')
    assert folder.get_gt_labels().tolist() == [0, 0, 0, 1]
    (tmp_path / 'list.txt').write_text('b/two.PNG\na/one.jpg\n')
    folder = ImageFolder(str(nested_images), list_file=str(tmp_path / 'list.txt'), with_label=True)
    assert folder.metainfo['classes'] == ('a', 'b')
    assert folder.get_gt_labels().tolist() == [1, 0]


def test_evaluation_ends_at_a_bad_image_with_its_path(nested_images, tmp_path):
    """Whether our decoder meets it, or that of another package."""
    bad = nested_images / 'b' / 'bad.png'
    bad.write_bytes(b'<html>not found</html>')
    (tmp_path / 'list.txt').write_text('b/bad.png\n')
    for loader in (LoadImage(), {'type': 'LoadImageFromFile'}):
        folder = ImageFolder(str(nested_images), [loader], list_file=str(tmp_path / 'list.txt'))
        with pytest.raises(BadImageError, match=str(bad)):
            folder[0]
    folder = ImageFolder(str(nested_images), pipeline=[lambda results: results['no such key']])
    with pytest.raises(KeyError):
        folder[0]
