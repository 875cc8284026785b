import numpy as np
import pytest

from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import FeatureWriter, is_feature_file, read_features


def test_batches_of_any_order_make_the_file_and_damage_is_refused(tmp_path):
    path = tmp_path / 'a.safetensors'
    options = (path, {2: 3, 4: 2}, ['a', 'b', 'c'], ['x', 'y'], {'weights': 'w'})
    writer = FeatureWriter(*options, batch_size=2)
    writer.write(1, {2: np.full((1, 3), 5), 4: np.full((1, 2), 6)}, np.array([1]))
    assert FeatureWriter(*options, batch_size=2).missing() == [0]
    assert FeatureWriter(*options, batch_size=3).missing() == [0]  # other batches: starts over
    writer = FeatureWriter(*options, batch_size=2)
    assert writer.missing() == [0, 1]
    for batch, rows in ((1, [2]), (0, [0, 1])):
        stages = {s: np.repeat(rows, d).reshape(-1, d) for s, d in ((2, 3), (4, 2))}
        writer.write(batch, stages, np.array(rows) % 2)
    assert not path.exists()
    writer.finish()
    found = read_features(path, 2)
    assert found.features.tolist() == [[0] * 3, [1] * 3, [2] * 3]
    assert (found.labels.tolist(), found.paths) == ([0, 1, 0], ['a', 'b', 'c'])
    assert (found.classes, found.about) == (['x', 'y'], {'weights': 'w', 'stage': 2})
    assert read_features(path).features.shape == (3, 2)
    whole = path.read_bytes()
    for damaged, message in ((whole[:-1], 'bytes exp'), (b'\xff' * 8 + whole, 'header claims')):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=message):
            read_features(path)
    path.write_bytes(whole)
    with pytest.raises(UserError, match='no stage 3: it has stage2, stage4'):
        read_features(path, 3)
    assert is_feature_file(path)
