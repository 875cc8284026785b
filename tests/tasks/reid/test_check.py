import pytest

from ttl_mm.tasks.reid.check import check_reid
from ttl_mm.tasks.reid.synthetic import make_split


@pytest.fixture
def root(tmp_path):
    make_split(tmp_path / 'data', train_people=4, images_each=3, test_people=5, distractors=7)
    return tmp_path / 'data'


def test_counts_of_sound_sets(root, tmp_path):
    report = check_reid(root)
    assert report.usable
    assert not report.notes
    assert report.counts == {
        'query': 'images: 5, identities: 5, cameras: 1, distractors: 0, junk: 0',
        'gallery': 'images: 12, identities: 5, cameras: 1, distractors: 7, junk: 0',
        'train': f'images: 12 below {root}/sysu_train_set_all, '
        'identities or bags: 4, missing: 0 of 12 looked for',
    }
    make_split(tmp_path / 'market', 'market', test_people=5, distractors=8)
    report = check_reid(tmp_path / 'market')
    assert report.usable
    counts = 'images: 23, identities: 5, cameras: 6, distractors: 6, junk: 2'
    assert report.counts['bounding_box_test'] == counts


def test_without_a_list_the_folders_tell_the_bags(root):
    (root / 'meta/train.txt').unlink()
    (root / 'sysu_train_set_all/0000000005').mkdir()
    report = check_reid(root)
    assert report.counts['train'] == (
        f'folders: 5 below {root}/sysu_train_set_all, without a list, identities or bags: 5'
    )
    assert report.errors['identity in both training and test images'] == ['5']


def test_missing_training_images_among_those_that_are_looked_for(root):
    (root / 'sysu_train_set_all/0000000002/0000000002_1.jpg').unlink()
    for files, expected in ((None, '1 of 12'), (10_000, '1 of 12'), (3, ' of 3')):
        assert f'{expected} looked for' in check_reid(root, files).counts['train']
    report = check_reid(root)
    assert list(report.errors.values()) == [['0000000002/0000000002_1.jpg']]
    assert 'ERROR: 1 x training image missing in' in str(report)
    report = check_reid(root, files=0)
    assert report.usable
    assert 'looked for' not in report.counts['train']


def test_malformed_names_and_a_gallery_without_any_match(root):
    query = root / 'sysu_test_set_all/query'
    for name in ('portrait.jpg', '0012_5.jpg', '0013_6.jpg'):
        (query / name).touch()
    for folder in (root / 'sysu_test_set_all/gallery').glob('0000000*'):
        folder.rename(root / folder.name)
    assert check_reid(root).errors == {
        'file name with no identity': ['query/portrait.jpg'],
        'file name with no camera': ['query/0012_5.jpg', 'query/0013_6.jpg'],
        'gallery without a match for any query': ['7 images'],
    }
    query.rename(root / 'elsewhere')
    query.mkdir()
    report = check_reid(root)
    assert list(report.errors) == ['empty folder']
    assert report.counts['query'] == 'images: 0'


def test_queries_that_cannot_be_found(root):
    query = root / 'sysu_test_set_all/query'
    image = next(query.glob('*/*.jpg')).read_bytes()
    for name in ('000000099_c2_2.jpg', '-1_c1_1.jpg', '000000005_c1_1.jpg'):
        (query / name).write_bytes(image)
    (query / '000000005_c2_9.jpg').touch()
    report = check_reid(root)
    assert report.errors == {
        'query that shows no known person': ['-1_c1_1.jpg'],
        'empty file': ['query/000000005_c2_9.jpg'],
    }
    assert report.notes == {
        'query without a match from another camera (skipped)': [
            '000000005_c1_1.jpg',
            '000000099_c2_2.jpg',
        ],
        'query image that is also in the gallery (junk there)': ['000000005_c1_1.jpg'],
    }
