"""Every image once per epoch, whatever interrupts it."""

import itertools
import random
from collections import Counter

from ttl_mm.datasets.epoch_steps import EpochSteps


def test_steps_of_a_whole_epoch():
    steps = EpochSteps(images=10, taken=0, batch=2, ranks=2, drop_last=False)
    assert len(steps) == 3
    assert [steps.places(0, rank).tolist() for rank in (0, 1)] == [[0, 2], [1, 3]]
    assert [steps.places(2, rank).tolist() for rank in (0, 1)] == [[8], [9]]
    assert [steps.taken_after(s) for s in range(4)] == [0, 4, 8, 10]
    assert len(EpochSteps(10, 0, 2, 2, drop_last=True)) == 2
    assert len(EpochSteps(10, 12, 2, 2, drop_last=False)) == 0


def test_a_history_of_ranks_and_batches_covers_each_image_once():
    """Sixty epochs; `pytest -l` shows seed and drop_last of one that fails."""
    for seed, drop_last in itertools.product(range(30), (False, True)):
        check_history(random.Random(seed), drop_last)


def check_history(rng: random.Random, drop_last: bool) -> None:
    """Runs of 1 to 4 ranks and changing batches, each stopped in the middle of the epoch."""
    images = rng.randint(40, 300)
    seen, taken, largest = Counter(), 0, 0
    while True:
        batch, ranks = rng.randint(2, 12), rng.randint(1, 4)
        steps = EpochSteps(images, taken, batch, ranks, drop_last)
        made = rng.randint(0, min(3, len(steps))) if rng.random() < 0.9 else len(steps)
        for step in range(made):
            shares = [steps.places(step, rank) for rank in range(ranks)]
            assert len({len(share) for share in shares}) == 1  # collectives need equal shapes
            dealt = [int(place) for turn in zip(*shares) for place in turn]
            whole = steps.taken_after(step + 1) - steps.taken_after(step)
            seen.update(dealt[:whole])
            repeated = dealt[whole:]
            assert repeated == list(range(len(repeated)))
            assert len(repeated) < ranks
            assert not repeated or (step + 1 == len(steps) and not drop_last)
        taken = steps.taken_after(made)
        if made == len(steps):
            largest = batch * ranks
            break
    assert set(seen.values()) == {1}
    assert sorted(seen) == list(range(taken))
    assert images - taken < largest if drop_last else images == taken
