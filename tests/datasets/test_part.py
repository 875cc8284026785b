import numpy as np
import pytest

from ttl_mm.datasets import Digits, Fraction
from ttl_mm.datasets.sample_index import SampleIndex
from ttl_mm.errors import UserError


def test_every_class_gives_its_share_drawn_by_the_seed():
    whole = Digits('train')
    counts = np.bincount(whole.get_gt_labels())
    for share in (0.001, 0.1, 1.0):
        part = Fraction(Digits('train'), share)
        expected = [max(1, round(share * count)) for count in counts]
        assert np.bincount(part.get_gt_labels()).tolist() == expected
        assert len(part) == sum(expected)
    first, again, other = (Fraction(Digits('train'), 0.1, seed) for seed in (0, 0, 1))
    assert first.indices.tolist() == again.indices.tolist() != other.indices.tolist()
    assert first.indices[:5].tolist() == sorted(first.indices[:5])
    for fraction in (0, 1.5, -0.1):
        with pytest.raises(UserError, match='above 0'):
            Fraction(Digits('train'), fraction)


def test_samples_are_those_of_the_whole_with_the_draws_of_the_part():
    class Recording:
        metainfo = {}  # noqa: RUF012

        def get_gt_labels(self):
            return [0, 1] * 5

        def __getitem__(self, index):
            return index

    part = Fraction(Recording(), 0.2, seed=3)
    found = part[SampleIndex(1, epoch=4, seed=7)]
    assert (int(found), found.epoch, found.seed, found.outer) == (part.indices[1], 4, 7, 1)
    assert type(part[1]) is int
