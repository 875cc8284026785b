"""The loss of DeepCluster and ODC does not depend on the number of clusters they weigh."""

import pytest
import torch
import torch.nn.functional as F

import ttl_mm.tasks.mmselfsup.parts  # noqa: F401  isort: skip
from mmcls.models.losses import CrossEntropyLoss

from ttl_mm.tasks.mmselfsup.cluster_loss import ClusterLoss

CLUSTERS = 100


def test_weights_compare_clusters_and_even_ones_change_nothing():
    rng = torch.Generator().manual_seed(0)
    batch = torch.randn(8, CLUSTERS, generator=rng), torch.randint(CLUSTERS, (8,), generator=rng)
    loss, theirs = ClusterLoss(), CrossEntropyLoss()
    plain = F.cross_entropy(*batch)
    assert loss(*batch).item() == plain.item()
    loss.class_weight = theirs.class_weight = torch.full((CLUSTERS,), 1 / CLUSTERS)
    assert loss(*batch).item() == pytest.approx(plain.item())
    assert theirs(*batch).item() == pytest.approx(plain.item() / CLUSTERS)  # which is why

    loss.class_weight = torch.rand(CLUSTERS, generator=rng)
    weights, rows = loss.class_weight[batch[1]], -batch[0].log_softmax(dim=1)[range(8), batch[1]]
    expected = (weights * rows).sum() / weights.sum()
    assert loss(*batch).item() == pytest.approx(expected.item())
