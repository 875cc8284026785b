import pytest

from ttl_mm.datasets.data_report import DataReport, require_usable
from ttl_mm.errors import UserError


def test_counts_errors_and_notes_are_printed_in_this_order():
    report = DataReport({'train': '1,000 images'})
    assert report.usable
    require_usable([report], 'data')
    report.notes['image without objects'].append('z.jpg')
    assert report.usable
    report.errors['empty file'] += ['a.jpg', 'b.jpg', 'c.jpg', 'd.jpg', 'e.jpg']
    assert not report.usable
    assert str(report).splitlines() == [
        'train (1,000 images)',
        'ERROR: 5 x empty file: a.jpg, b.jpg, c.jpg and 2 more',
        'note: 1 x image without objects: z.jpg',
    ]
    with pytest.raises(UserError, match='data cannot be used: correct one kind of error'):
        require_usable([DataReport(), report], 'data')
    with pytest.raises(UserError, match='correct 2 kinds of error'):
        require_usable([report, report], 'data')
