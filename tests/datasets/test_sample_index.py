import pickle

import numpy as np

from ttl_mm.datasets.sample_index import SampleIndex


def test_is_an_index_that_survives_the_way_to_a_worker():
    assert [10, 20, 30][SampleIndex(1, epoch=4, seed=2)] == 20
    sent = SampleIndex(7, epoch=3, seed=5).at(2)
    received = pickle.loads(pickle.dumps(sent))
    assert (int(received), received.epoch, received.seed, received.outer) == (2, 3, 5, 7)


def test_draws_follow_seed_epoch_and_outer_position():
    """Old runs resume only if this formula stays."""
    for index in (SampleIndex(7, epoch=3, seed=5), SampleIndex(7, epoch=3, seed=5).at(2)):
        assert index.rng().random() == np.random.default_rng((5, 3, 7)).random()
        expected = np.random.SeedSequence((5, 3, 7, 1)).generate_state(3)
        assert index.global_seeds() == tuple(expected)
    keys = [(7, 3, 5), (8, 3, 5), (7, 4, 5), (7, 3, 6)]
    draws = {SampleIndex(i, epoch=e, seed=s).rng().random() for i, e, s in keys}
    assert len(draws) == len(keys)
