"""ODC's memory against mmselfsup's own, which is given what it needs: a process group and CUDA."""

import pytest
import torch
from torch import distributed as dist

import ttl_mm.tasks.mmselfsup.parts  # noqa: F401  isort: skip
from mmselfsup.models.memories import ODCMemory as Original

from ttl_mm.errors import UserError
from ttl_mm.tasks.mmselfsup.odc import ODCMemory

IMAGES, DIM, CLUSTERS = 60, 4, 5


@pytest.fixture
def both(monkeypatch):
    """The two memories, started from the same features and clusters."""
    monkeypatch.setattr(torch.Tensor, 'cuda', lambda self: self)
    dist.init_process_group('gloo', store=dist.HashStore(), rank=0, world_size=1)
    rng = torch.Generator().manual_seed(0)
    features = torch.randn(IMAGES, DIM, generator=rng)
    labels = torch.arange(IMAGES) % CLUSTERS
    settings = dict(length=IMAGES, feat_dim=DIM, momentum=0.5, num_classes=CLUSTERS, min_cluster=4)
    ours, original = ODCMemory(**settings), Original(**settings)
    ours.init_memory(features, labels)
    original.init_memory(features.numpy().copy(), labels.numpy())
    yield ours, original
    dist.destroy_process_group()


def assert_equal(ours, original):
    assert ours.label_bank.tolist() == original.label_bank.tolist()
    torch.testing.assert_close(ours.feature_bank, original.feature_bank)
    torch.testing.assert_close(ours.centroids, original.centroids)


def test_start_and_updates(both):
    assert_equal(*both)
    rng = torch.Generator().manual_seed(1)
    for _ in range(6):
        idx = torch.randperm(IMAGES, generator=rng)[:16]
        feature = torch.randn(16, DIM, generator=rng)
        found, expected = (memory.update_samples_memory(idx, feature) for memory in both)
        assert found.item() == pytest.approx(expected.item())
        assert_equal(*both)
        for memory in both:
            memory.update_centroids_memory()
        assert_equal(*both)


def test_small_clusters(both):
    """Two clusters have 3 and 0 images; the partition is the same, the names of halves are free."""
    labels = torch.arange(IMAGES) % 3
    halves = torch.where(torch.arange(IMAGES) % 2 == 0, 1.0, -1.0)  # each cluster has two parts
    features = torch.eye(DIM)[labels] + 1.5 * halves[:, None] * torch.eye(DIM)[3]
    features += 0.05 * torch.randn(IMAGES, DIM, generator=torch.Generator().manual_seed(2))
    labels[:3] = 3
    for memory in both:
        memory.feature_bank.copy_(torch.nn.functional.normalize(features, dim=1))
        memory.label_bank.copy_(labels)
        memory.update_centroids_memory()
        memory.deal_with_small_clusters()
    ours, original = both
    same_cluster = [m.label_bank[:, None] == m.label_bank for m in both]
    assert torch.equal(*same_cluster)
    assert ours.label_bank.bincount().min() > 3
    for label in range(CLUSTERS):  # the centroid of a cluster that was split is up to date
        (name,) = original.label_bank[ours.label_bank == label].unique()
        torch.testing.assert_close(ours.centroids[label], original.centroids[name])


def test_too_many_clusters():
    with pytest.raises(UserError, match='60 images cannot form 20 clusters of at least 4'):
        ODCMemory(length=60, feat_dim=4, momentum=0.5, num_classes=20, min_cluster=4)
