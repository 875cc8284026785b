import numpy as np
import torch

from ttl_mm.report.neighbors import draw_neighbors, nearest_neighbors


def test_neighbors_equal_a_naive_search():
    rng = np.random.default_rng(0)
    train, test = rng.normal(size=(30, 5)), rng.normal(size=(4, 5))
    nearest, similarity = nearest_neighbors(torch.tensor(train), torch.tensor(test), 3)
    for q in range(len(test)):
        norms = np.linalg.norm(train, axis=1) * np.linalg.norm(test[q])
        cosine = np.array([row @ test[q] for row in train]) / norms
        order = np.argsort(-cosine)[:3]
        assert nearest[q].tolist() == order.tolist()
        np.testing.assert_allclose(similarity[q], cosine[order], atol=1e-12)


def test_a_wrong_neighbor_is_marked():
    images = {'train': np.zeros((2, 4, 4, 3), np.uint8), 'test': np.zeros((1, 4, 4, 3), np.uint8)}
    nearest, hits = torch.tensor([[0, 1]]), torch.tensor([[True, False]])
    figure = draw_neighbors(images, nearest, hits, torch.ones(1, 2), torch.tensor([0]))
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ['query', '1.00', '1.00 ✗']
