"""Masks of two styles, and what is wrong with them."""

import cv2
import numpy as np
import pytest

from tests.helpers.mask_data import write_ade_masks, write_voc_masks
from ttl_mm.errors import UserError
from ttl_mm.tasks.segmentation.masked import VOC, colored, read_mask, read_masks
from ttl_mm.tasks.segmentation.mean_iou import confusion, intersections


@pytest.fixture
def voc(tmp_path):
    return write_voc_masks(tmp_path / 'VOC2012', {'train': 4, 'val': 2})


@pytest.fixture
def ade(tmp_path):
    return write_ade_masks(tmp_path / 'ade', {'training': 4, 'validation': 2})


def refused(data, words):
    said = []
    with pytest.raises(UserError, match='cannot be used: correct one kind of error listed above'):
        read_masks(data, said.append)
    assert words in '\n'.join(said)


def test_both_styles_give_pairs_of_files_and_numbers_of_classes(voc, ade):
    found = read_masks(voc.parent, len)  # a folder above is as good
    assert (len(found.train), len(found.val)) == (4, 2)
    assert found.classes == ('ground', 'blue', 'green')
    assert {*np.unique(read_mask(found.train[0].mask))} <= {0, 1, 2, 255}
    found = read_masks(ade, len)
    assert (len(found.train), len(found.val)) == (4, 2)
    values = {v for p in found.train for v in np.unique(read_mask(p.mask, found.zero_is_none))}
    assert values == {0, 1, 255}  # 0 of the file is no class


def test_a_fifth_is_held_out_where_nothing_says_what_to_validate_on(voc):
    (voc / 'ImageSets/Segmentation/val.txt').unlink()
    (voc / 'classes.txt').unlink()
    found = read_masks(voc, len)
    assert (len(found.train), len(found.val)) == (3, 1)
    assert 'a fifth' in found.how
    assert found.classes == VOC


@pytest.mark.parametrize(
    ('break_it', 'words'),
    [
        (lambda d: (d / 'JPEGImages/train1.jpg').unlink(), 'mask without an image: train1.png'),
        (lambda d: (d / 'SegmentationClass/val0.png').unlink(), 'image without a mask: val0.jpg'),
        (lambda d: (d / 'SegmentationClass/val0.png').write_text('x'), 'unreadable file'),
        (lambda d: (d / 'classes.txt').write_text('a\nb\n'), 'class that has no name'),
        (
            lambda d: cv2.imwrite(str(d / 'SegmentationClass/val0.png'), np.zeros((9, 8))),
            'mask of another size than its image: val0.jpg (72 x 64, 8 x 9)',
        ),
        (
            lambda d: cv2.imwrite(str(d / 'SegmentationClass/val0.png'), np.zeros((64, 72, 3))),
            'has shape (64, 72, 3)',
        ),
    ],
)
def test_faults_are_named(voc, break_it, words):
    break_it(voc)
    refused(voc, words)


def test_one_of_a_pair_that_is_missing_is_named_in_folders_too(ade):
    image, mask = ade / 'images/training/0.jpg', ade / 'annotations/validation/1.png'
    content = image.read_bytes()
    image.unlink()
    refused(ade, 'mask without an image: 0.png')
    image.write_bytes(content)
    mask.unlink()
    refused(ade, 'image without a mask: 1.jpg')


def test_a_class_without_pixels_and_unknown_layouts_are_named(voc, tmp_path):
    (voc / 'classes.txt').write_text('ground\nblue\ngreen\nred\n')
    said = []
    read_masks(voc, said.append)
    assert 'note: 1 x class without a pixel to train on: red' in said[0]
    (voc / 'classes.txt').write_text('a\n' * 256)
    with pytest.raises(UserError, match=r'classes\.txt names 256 classes'):
        read_masks(voc)
    (tmp_path / 'other').mkdir()
    with pytest.raises(UserError, match='is no dataset of masks that is known here: name a VOC'):
        read_masks(tmp_path / 'other')


def test_intersections_agree_with_counting_by_hand():
    truth = np.array([[0, 0, 1], [1, 255, 1]])
    found = np.array([[0, 1, 1], [1, 1, 0]])
    counts = confusion(truth, found, 3)
    assert counts.sum() == 5  # the pixel without a class does not count
    for label, expected in ((0, 1 / 3), (1, 2 / 4)):
        known = truth != 255
        hits = ((truth == label) & (found == label) & known).sum()
        union = (((truth == label) | (found == label)) & known).sum()
        assert intersections(counts)[label] == pytest.approx(hits / union) == expected
    assert np.isnan(intersections(counts)[2])
    small = confusion(np.repeat(np.repeat(truth, 2, 0), 2, 1), found, 3)
    assert (small == 4 * counts).all()


def test_colors_are_those_of_voc():
    picture = colored(np.array([[0, 1, 2, 255]], np.uint8))
    assert picture.tolist() == [[[0, 0, 0], [128, 0, 0], [0, 128, 0], [0, 0, 0]]]
