"""Synthetic people: the same arguments give the same pixels, and every argument matters."""

import json

import numpy as np

from ttl_mm.tasks.reid.synthetic import HEIGHT, WIDTH, draw_person, make_split


def test_every_argument_of_a_drawing_matters():
    image = draw_person(1, 2, 3, seed=4)
    assert (image.shape, image.dtype) == ((HEIGHT, WIDTH, 3), np.uint8)
    np.testing.assert_array_equal(draw_person(1, 2, 3, seed=4), image)
    for other in ((2, 2, 3, 4), (1, 3, 3, 4), (1, 2, 4, 4), (1, 2, 3, 5)):
        assert (draw_person(*other) != image).any()


def test_files_of_the_sysu_layout(tmp_path):
    make_split(tmp_path / 'a', train_people=2, images_each=3, test_people=1, distractors=2)
    names = (tmp_path / 'a/meta/train.txt').read_text().split()
    assert names == [f'{p:010}/{p:010}_{shot}.jpg' for p in (1, 2) for shot in range(3)]
    assert all((tmp_path / 'a/sysu_train_set_all' / name).is_file() for name in names)
    bags = json.loads((tmp_path / 'a/meta/bag_level_label.json').read_text())
    assert [bag['BagImages'] for bag in bags] == [names[:3], names[3:]]
    test = tmp_path / 'a/sysu_test_set_all'
    assert sorted(str(path.relative_to(test)) for path in test.rglob('*.jpg')) == [
        'gallery/000000003/000000003_c1_1.jpg',
        'gallery/0000others/0000others_c1_1.jpg',
        'gallery/0000others/0000others_c1_2.jpg',
        'query/000000003/000000003_c2_2.jpg',
    ]
