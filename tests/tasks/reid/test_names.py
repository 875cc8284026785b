"""Identities and cameras from file names."""

import pytest

from ttl_mm.errors import UserError
from ttl_mm.tasks.reid.names import parse_name, parse_names, require_names, train_identities

NAMES = {
    'gallery/000028311/000028311_c1_1.jpg': (28311, 1),
    '000029310_c2_2.jpg': (29310, 2),
    '0000others/0000others_c1_478730.jpg': (-1000, 1),
    '0002_c1s1_000451_03.jpg': (2, 1),
    '0000_c6s2_074243_06.jpg': (0, 6),
    '-1_c3s1_001251_02.jpg': (-1, 3),
    '0005_c12_f0046182.jpg': (5, 12),
}
FAULTS = {
    'no identity': ['portrait.jpg', '_c1_1.jpg', '-2_c1_1.jpg', 'c1_000028311_1.jpg', '0002.jpg'],
    'no camera': ['0002_000451.jpg', '0002_cam1_000451.jpg'],
}


def test_names_of_both_datasets():
    assert {name: parse_name(name) for name in NAMES} == NAMES
    ids, cams = require_names(NAMES, 'here')
    assert list(zip(ids.tolist(), cams.tolist())) == list(NAMES.values())


def test_malformed_names_are_listed_by_what_they_lack():
    bad = [name for names in FAULTS.values() for name in names]
    found = parse_names([*bad[:3], *NAMES, *bad[3:]])
    assert found.faults == FAULTS
    assert found.names == list(NAMES)
    with pytest.raises(UserError, match=r'malformed file names in here, 7 in all .* and 4 more'):
        require_names(bad, 'here')


def test_train_identities_come_from_numbered_folders_or_else_from_names():
    names = ['all/0000000007/a.jpg', 'all/0000000007/0009_c1.jpg', 'all/0000000003/b.jpg']
    assert train_identities(names) == {7, 3}
    names = ['0002_c1s1_1.jpg', '0011_c1s1_1.jpg', '-1_c1s1_2.jpg', '0000_c1s1_2.jpg', 'x.jpg']
    assert train_identities(names) == {2, 11}
