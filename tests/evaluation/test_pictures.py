import os

import numpy as np
import pytest
from matplotlib.figure import Figure

from ttl_mm.evaluation.pictures import draw_confusion, draw_tsne

LABELS = np.array([0, 0, 0, 1, 1, 2])
PREDICTED = np.array([0, 0, 1, 1, 1, 0])


@pytest.fixture
def drawn(monkeypatch):
    """The figures that were written."""
    figures = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, 'savefig', lambda f, path: (figures.append(f), save(f, path)))
    return figures


def test_rows_of_the_confusion_matrix_are_true_classes(drawn, tmp_path):
    draw_confusion(LABELS, PREDICTED, ['ant', 'bee', 'cat', 'dog'], tmp_path / 'x.png', 'kNN')
    axes = drawn[0].axes[0]
    rows = [[2 / 3, 1 / 3, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]  # no dog at all
    np.testing.assert_allclose(axes.images[0].get_array(), rows)
    counts = {(*map(int, text.get_position()),): text.get_text() for text in axes.texts}
    assert counts == {(0, 0): '2', (1, 0): '1', (1, 1): '2', (0, 2): '1'}  # column, row
    assert axes.get_title() == 'kNN\ntop-1 66.7 %'
    assert (tmp_path / 'x.png').stat().st_size > 1000
    odd = ['a$b$', os.fsdecode(b'caf\xe9'), '<b>', 'two\nlines']  # names that are no formula
    draw_confusion(LABELS, PREDICTED, odd, tmp_path / 'odd.png', 'kNN')
    shown = [text.get_text() for text in drawn[1].axes[0].get_yticklabels()]
    assert shown == [r'a\$b\$', r'caf\udce9', '<b>', 'two\nlines']


def test_the_map_has_evenly_chosen_points_in_the_colors_of_their_classes(drawn, tmp_path):
    labels = np.repeat([0, 1], 20)
    features = np.random.default_rng(0).normal(0, 0.1, (40, 4)) + np.eye(4)[labels]
    draw_tsne(features, labels, ['ant', 'bee'], tmp_path / 'x.png', max_points=24)
    axes = drawn[0].axes[0]
    ants, bees = (points.get_offsets().data for points in axes.collections)
    assert (len(ants), len(bees)) == (12, 12)
    apart = np.linalg.norm(ants.mean(0) - bees.mean(0))
    assert apart > max(np.linalg.norm(x - x.mean(0), axis=1).max() for x in (ants, bees))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ['ant', 'bee']
    assert axes.get_title() == 't-SNE of 24 of 40 features'
