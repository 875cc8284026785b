import numpy as np
import torch

from ttl_mm.datasets.picture_grid import FRAME
from ttl_mm.evaluation.probe import Probe
from ttl_mm.report.neighbors import RIGHT, WRONG, draw_neighbors, gain, images_of


def test_frames_tell_right_from_wrong_neighbors():
    images = {'train': np.zeros((2, 4, 4, 3), np.uint8), 'test': np.zeros((1, 4, 4, 3), np.uint8)}
    nearest, hits = torch.tensor([[0, 1]]), torch.tensor([[True, False]])
    picture = draw_neighbors(images, nearest, hits, torch.ones(1, 2), torch.tensor([0]))
    middle = picture[picture.shape[0] // 2]  # a line of pixels through all images
    right, wrong = (np.flatnonzero((middle == color).all(axis=1)) for color in (RIGHT, WRONG))
    assert len(right) == len(wrong) == 2 * FRAME
    assert right.max() < wrong.min()


def test_a_gain_within_the_error_can_be_chance():
    assert 'changed by +1.0 points, which can be chance' in gain('kNN', 26.0, 27.0, 500)
    assert 'lowered kNN by 20.0 points' in gain('kNN', 46.0, 26.0, 500)
    assert gain('kNN', 0.0, 100.0, 9).startswith('Training raised kNN by 100.0 points')


def test_the_pictures_are_those_whose_features_the_probe_took():
    train = [{'inputs': torch.full((3, 2, 2), i, dtype=torch.uint8)} for i in range(6)]
    probe = Probe(train, train, max_train=2)
    assert images_of(probe, 'train')[:, 0, 0, 0].tolist() == [0, 3]
    assert images_of(probe, 'test')[:, 0, 0, 0].tolist() == [0, 1, 2, 3, 4, 5]
