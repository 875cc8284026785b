import json
from dataclasses import replace

import numpy as np
import pytest

from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import Features
from ttl_mm.evaluation.figures import check_pair, evaluate_features, table, write_json

ABOUT = {'weights': 'a' * 64, 'stage': 4, 'crop': '32', 'data': 'x', 'versions': {}}


def split(count: int, seed: int) -> Features:
    """Two classes that lie on opposite sides of the origin, but for one image of the second."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    features = rng.normal(0, 0.1, (count, 3)) + np.where(labels, -1, 1)[:, None]
    features[1] *= -1
    paths = [str(i) for i in range(count)]
    return Features(features.astype(np.float32), labels, paths, ['ant', 'bee'], ABOUT)


def test_figures_state_protocol_and_value():
    figures, predictions = evaluate_features(split(20, 0), split(8, 1), ['knn'], [3, 99], [0.1])
    (figure,) = figures  # there are no 99 neighbors
    assert (figure['k'], figure['temperature'], figure['value']) == (3, 0.1, 87.5)  # 7 of 8
    name = 'weighted kNN, cosine, k 3, temperature 0.1'
    assert predictions[name].tolist() == [0, 0, 0, 1, 0, 1, 0, 1]
    assert figure['train'] == {'images': 20, 'fingerprint': 'x'}
    head, line = table([figure | {'spread': 1.234}]).splitlines()
    assert head.split() == ['protocol', 'top-1', '(%)']
    assert line == f'{name}  87.50 ± 1.23'
    with pytest.raises(UserError, match='k is 21, the training set has 20'):
        evaluate_features(split(20, 0), split(8, 1), ['knn'], [21])


def test_splits_of_different_origin_are_refused():
    train, test = split(6, 0), split(6, 1)
    check_pair(train, test)
    for changed, message in (
        (replace(test, about=ABOUT | {'crop': '224'}), r'their sizes of the images differ \(32 an'),
        (replace(test, about=ABOUT | {'weights': 'b' * 64}), r'weights differ \(a{12} and b{12}\)'),
        (replace(test, labels=np.zeros(6, int)), 'bee'),
        (replace(test, classes=['bee', 'ant']), 'number their classes differently'),
    ):
        with pytest.raises(UserError, match=message):
            check_pair(train, changed)


def test_a_file_of_figures_is_whole_or_the_old_one(tmp_path):
    path = tmp_path / 'figures.json'
    write_json([{'value': 1}], path)
    with pytest.raises(TypeError):
        write_json([{'value': object()}], path)
    assert json.loads(path.read_text()) == [{'value': 1}]
