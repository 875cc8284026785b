import pytest

from tests.helpers.images import write_images
from ttl_mm.errors import UserError
from ttl_mm.planning.image_sources import find_images, try_images


def test_positions_lead_to_the_files_of_all_sources(tmp_path):
    for name, count in (('a', 3), ('b', 2), ('c', 4)):
        write_images(tmp_path / name, count, 20, 30)
    found = find_images([tmp_path / name for name in 'cab'])
    assert (len(found), found.root) == (9, tmp_path)
    names = list(found.names())
    assert names[3:6] == ['c/3.jpg', 'a/0.jpg', 'a/1.jpg']
    positions = [0, 3, 4, 6, 8]
    assert list(found.paths(positions)) == [tmp_path / names[i] for i in positions]
    assert find_images([tmp_path / 'a']).root == tmp_path / 'a'


def test_the_sample_counts_unreadable_files_and_measures_the_others(tmp_path):
    found = find_images([write_images(tmp_path / 'some', 12, 20, 30, bad=(3, 7))])
    sample = try_images(found)
    assert (sample.tried, len(sample.bad), sample.short_side) == (12, 2, 20)
    assert {fault.path[-5:] for fault in sample.bad} == {'3.jpg', '7.jpg'}
    assert try_images(found, tried=4).tried == 4
    assert try_images(found, seconds=0).tried == 1  # a slow disk
    half = find_images([write_images(tmp_path / 'half', 4, 20, 30, bad=(0, 1))])
    with pytest.raises(UserError, match='2 of 4 images that were tried cannot be read'):
        try_images(half)


def test_a_list_of_files_that_are_not_there_is_refused(tmp_path):
    (tmp_path / 'list.txt').write_text('a.jpg\nb.jpg\n')
    with pytest.raises(UserError, match='check the paths in the list'):
        try_images(find_images([tmp_path / 'list.txt']))
    (tmp_path / 'nothing.txt').touch()
    with pytest.raises(UserError, match='is an empty file'):
        find_images([tmp_path / 'nothing.txt'])
