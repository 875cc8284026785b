"""The loss of DeepCluster and ODC does not depend on the number of clusters they weigh."""

import pytest
import torch
import torch.nn.functional as F

import ttl_mm.tasks.mmselfsup.parts  # noqa: F401  isort: skip
from mmcls.models.losses import CrossEntropyLoss

from ttl_mm.tasks.mmselfsup.parts import ClusterLoss

CLUSTERS = 100


@pytest.fixture
def batch():
    rng = torch.Generator().manual_seed(0)
    logits = torch.randn(8, CLUSTERS, generator=rng)
    return logits, torch.randint(CLUSTERS, (8,), generator=rng)


def test_even_weights_change_nothing(batch):
    loss, theirs = ClusterLoss(), CrossEntropyLoss()
    plain = F.cross_entropy(*batch)
    assert loss(*batch).item() == plain.item()
    loss.class_weight = theirs.class_weight = torch.full((CLUSTERS,), 1 / CLUSTERS)
    assert loss(*batch).item() == pytest.approx(plain.item())
    assert theirs(*batch).item() == pytest.approx(plain.item() / CLUSTERS)  # which is why


def test_weights_compare_clusters(batch):
    logits, labels = batch
    loss, weights = ClusterLoss(), torch.rand(CLUSTERS)
    loss.class_weight = weights
    rows = -logits.log_softmax(dim=1)[range(8), labels]
    expected = (weights[labels] * rows).sum() / weights[labels].sum()
    assert loss(logits, labels).item() == pytest.approx(expected.item())
