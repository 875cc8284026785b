import pickle

from ttl_mm.datasets.sample_index import SampleIndex


def test_is_an_index():
    assert [10, 20, 30][SampleIndex(1, epoch=4, seed=2)] == 20


def test_survives_the_way_to_a_worker():
    sent = SampleIndex(7, epoch=3, seed=5)
    received = pickle.loads(pickle.dumps(sent))
    assert (int(received), received.epoch, received.seed) == (7, 3, 5)
    assert received.rng().random() == sent.rng().random()


def test_each_part_changes_the_draw():
    keys = [(7, 3, 5), (8, 3, 5), (7, 4, 5), (7, 3, 6)]
    draws = {SampleIndex(i, epoch=e, seed=s).rng().random() for i, e, s in keys}
    assert len(draws) == len(keys)
