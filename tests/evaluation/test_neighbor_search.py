"""The fast search against its definition, with tiles so small that every path is taken."""

import pytest
import torch

from ttl_mm.evaluation import neighbor_search
from ttl_mm.evaluation.neighbor_search import nearest_neighbors, neighbors_by_definition


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    sizes = {'PANEL': 50, 'TILE_QUERIES': 17, 'TILE_TRAIN': 90, 'SLACK': 8, 'PAIR_VALUES': 64}
    for name, size in sizes.items():
        monkeypatch.setattr(neighbor_search, name, size)


def in_class_order(generator):
    """Later tiles hold the nearer samples, so that the places of a query run out."""
    x = torch.randn(600, 8, generator=generator)
    return x[x[:, 0].argsort()], torch.randn(60, 8, generator=generator) + torch.eye(8)[0] * 4


def with_many_ties(generator):
    """Few different vectors, each many times."""
    points = torch.randint(-1, 2, (12, 5), generator=generator).float()
    train, test = (torch.randint(12, (n,), generator=generator) for n in (600, 60))
    return points[train], points[test]


def almost_equal(generator):
    """Differences that float32 does not see."""
    center = torch.randn(16, generator=generator, dtype=torch.float64)
    noise = torch.randn(660, 16, generator=generator, dtype=torch.float64)
    return (center + 1e-9 * noise).split([600, 60])


@pytest.mark.parametrize('make', [in_class_order, with_many_ties, almost_equal])
def test_search_equals_the_definition(make):
    train, test = make(torch.Generator().manual_seed(0))
    for k in (1, 7, 100, 600):
        panels = list(nearest_neighbors(train, test, k))
        assert [len(index) for _, index in panels] == [50, 10]
        similarity, index = (torch.cat(parts) for parts in zip(*panels))
        expected, order = neighbors_by_definition(train, test, k)
        assert torch.equal(index, order)
        torch.testing.assert_close(similarity, expected, rtol=0, atol=1e-15)


def test_the_definition_on_three_points():
    train = torch.tensor([[0.0, 2.0], [1.0, 0.0], [3.0, 0.0], [-1.0, 0.0]])
    similarity, index = neighbors_by_definition(train, torch.tensor([[5.0, 0.0]]), 3)
    assert index.tolist() == [[1, 2, 0]]  # of the two equal ones the earlier first
    assert similarity.tolist() == [[1, 1, 0]]


@pytest.mark.parametrize('make', [in_class_order, with_many_ties, almost_equal])
def test_what_reaches_the_least_cosine_equals_the_definition(make):
    train, test = make(torch.Generator().manual_seed(0))
    for k, least in ((1, 0.3), (7, 0.9), (600, 0.99), (7, 2.0)):
        panels = nearest_neighbors(train, test, k, least=least)
        similarity, index = (torch.cat(parts) for parts in zip(*panels))
        expected, order = neighbors_by_definition(train, test, k)
        wanted = expected >= least
        assert torch.equal(similarity >= least, wanted)
        assert torch.equal(index[wanted], order[wanted])
