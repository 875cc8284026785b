import math
from itertools import combinations

import numpy as np
import pytest
import torch

from ttl_mm.gauges import (
    RankExplorer,
    class_divergence,
    effective_rank,
    false_negative_frequency,
    false_negatives_by_rank,
    overclustering_risk,
)

LABELS = torch.arange(60) % 4


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def features(generator):
    return torch.randn(60, 6, generator=generator) + 2 * torch.eye(6)[LABELS]


def naive_divergence(features, labels, spread):
    x, y = features.double().numpy(), labels.numpy()
    centers = {c: x[y == c].mean(0) for c in set(y.tolist())}
    origin = {'within': lambda c: centers[c], 'total': lambda c: x.mean(0)}[spread]
    squares = [((row - origin(c)) ** 2).mean() for row, c in zip(x, y.tolist())]
    distances = [np.linalg.norm(centers[a] - centers[b]) for a, b in combinations(centers, 2)]
    return np.mean(distances) / math.sqrt(np.mean(squares))


def naive_events(query, key, labels, low, high):
    omega = False
    for i in range(len(query)):
        others = [j for j in range(len(key)) if j != i]
        distance = {j: -torch.cosine_similarity(query[i], key[j], dim=0).item() for j in others}
        ranked = sorted(others, key=distance.get)
        omega |= any(labels[j] == labels[i] for j in ranked[low - 1 : high])
    return omega, len(labels.unique()) < len(labels)


@pytest.mark.parametrize('spread', ['within', 'total'])
def test_divergence_equals_a_naive_loop_and_ignores_rotation_translation_and_scale(
    features, generator, spread
):
    # classes of unequal size, so that a mean over classes differs from one over images
    labels = torch.where(torch.arange(60) < 40, 0, LABELS)
    found = class_divergence(features, labels, spread)
    assert found == pytest.approx(naive_divergence(features, labels, spread), rel=1e-9)
    rotation, _ = torch.linalg.qr(torch.randn(6, 6, generator=generator))
    moved = 37 * features @ rotation + torch.randn(6, generator=generator)
    assert class_divergence(moved, labels, spread) == pytest.approx(found, rel=1e-5)
    cross = torch.tensor([[1.0, 0], [-1, 0], [0, 1], [0, -1]])  # the centers coincide
    assert class_divergence(cross, torch.tensor([0, 0, 1, 1]), spread) == 0


def test_impossible_labels_and_spreads_are_refused(features):
    for labels, spread, message in (
        (torch.zeros(60), 'within', 'two classes, found 1'),
        (LABELS[:-1], 'within', r'\(59,\)'),
        (LABELS, 'all', "not 'all'"),
    ):
        with pytest.raises(ValueError, match=message):
            class_divergence(features, labels, spread)


def test_events_equal_a_naive_loop_and_gathered_keys_give_the_same(generator):
    for _ in range(6):
        query, key = torch.randn(2, 8, 5, generator=generator)
        labels = torch.randint(12, (8,), generator=generator)
        for ranks in ((1, 1), (3, 3), (2, 5)):
            events = false_negative_frequency(query, key, labels, ranks)
            assert events == naive_events(query, key, labels, *ranks)
    query, key = torch.randn(2, 10, 4, generator=generator)
    labels = torch.randint(5, (10,), generator=generator)
    whole = false_negatives_by_rank(query, key, labels)
    second_half = false_negatives_by_rank(query[6:], key, labels, offset=6)
    assert torch.equal(second_half, whole[6:])


def test_ranks_at_the_ends_of_the_batch():
    query, key = torch.randn(2, 5, 3)
    for labels, held in (([0, 1, 2, 3, 3], True), (range(5), False)):
        events = false_negative_frequency(query, key, torch.tensor(labels), (1, 4))
        assert events == (held, held)
    labels = torch.tensor([0, 0, 1, 1, 2])
    last = false_negative_frequency(query, key, labels, (4, 4))
    assert false_negative_frequency(query, key, labels, (50, 60)) == last
    for ranks in ((0, 1), (3, 2)):
        with pytest.raises(ValueError, match='1 <= lo <= hi'):
            false_negative_frequency(torch.eye(3), torch.eye(3), torch.arange(3), ranks)


def test_perfect_features_have_the_bernoulli_tail(generator):
    batch, classes, batches = 33, 10, 600
    explorer = RankExplorer()
    for _ in range(batches):
        labels = torch.randint(classes, (batch,), generator=generator)
        noise = 0.01 * torch.randn(2, batch, classes, generator=generator)
        explorer.add(*(torch.eye(classes)[labels] + noise), labels)
    for k in (1, 3, 5, 8):
        risk = overclustering_risk(batch - 1, k, 1 / classes)
        # anchors of one class and batch share their fate: the batch counts as one observation
        standard_error = math.sqrt(risk * (1 - risk) / batches)
        assert explorer.rate[k - 1].item() == pytest.approx(risk, abs=3 * standard_error)


def test_random_features_have_the_chance_of_a_random_partner(generator):
    batch, classes, batches = 40, 100, 2000
    explorer = RankExplorer()
    for _ in range(batches):
        query, key = torch.randn(2, batch, 16, generator=generator)
        explorer.add(query, key, torch.randint(classes, (batch,), generator=generator))
    expected = 1 - (1 - 1 / classes) ** batch
    standard_error = math.sqrt(expected * (1 - expected) / batches)
    for k in (1, 5, 20):
        found = explorer.frequency((k, k)).omega_given_a
        assert found == pytest.approx(expected, abs=3 * standard_error)


def test_explorer_counts_the_events_of_batches_of_one_size(generator):
    explorer, events = RankExplorer(), []
    for _ in range(40):
        query, key = torch.randn(2, 6, 4, generator=generator)
        labels = torch.randint(20, (6,), generator=generator)
        explorer.add(query, key, labels)
        events.append(false_negative_frequency(query, key, labels, (2, 3)))
    omega, b = sum(e.omega for e in events), sum(e.b for e in events)
    assert 0 < omega < b < 40
    assert explorer.frequency((2, 3)) == pytest.approx((omega / 40, omega / b))
    with pytest.raises(ValueError, match='3 images after batches of 6'):
        explorer.add(torch.eye(3), torch.eye(3), torch.arange(3))


def test_numpy_arrays_are_features_too(features):
    array, labels = features.numpy(), LABELS.numpy()
    assert class_divergence(array, labels) == class_divergence(features, LABELS)
    assert effective_rank(array) == effective_rank(features)
    assert false_negative_frequency(array, array, labels, (1, 1)) == (True, True)
