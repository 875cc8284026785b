import pytest
from scipy.stats import binom

from ttl_mm.errors import UserError
from ttl_mm.planning import PAPER, cautions, equivalences, make_plan, rank_choices

IMAGENET = 1_281_167


def broken(plan):
    """What differs from the paper, and what that does."""
    return {e.quantity: e.consequence for e in equivalences(plan) if not e.holds}


def test_the_papers_data_and_hardware_give_the_papers_recipe():
    plan = make_plan(IMAGENET, 1000, devices=8, k=52)
    assert plan.recipe == PAPER
    assert broken(plan) == {}
    assert plan.steps == 1539 * 200 // 5  # 1,540 with the last, incomplete batch


def test_accumulation_makes_up_for_missing_devices_in_all_but_the_batch_statistics():
    for devices, accumulation in ((1, 40), (4, 10), (40, 1)):
        plan = make_plan(IMAGENET, 1000, devices, k=52)
        found = plan.recipe.accumulation, plan.recipe.images_per_step, plan.recipe.lr
        assert found == (accumulation, 4160, 4.8)
        noise = 'noisier' if devices < 8 else 'smoother'
        assert broken(plan) == {'images per BN statistic': f'{noise} batch statistics'}


def test_memory_and_data_may_lower_the_batch():
    plan = make_plan(IMAGENET, 1000, 8, largest_batch=48)
    assert plan.negatives == 47
    assert plan.recipe.accumulation == 11  # 4224 images per step, the nearest to 4160
    assert plan.recipe.lr == pytest.approx(4.8 * 4224 / 4160, rel=1e-3)
    assert {'negatives per anchor', 'images per BN statistic'} <= broken(plan).keys()
    assert make_plan(IMAGENET, 1000, 8, largest_batch=500).negatives == 103
    assert make_plan(100, 10, devices=2).recipe.batch == 50  # all there are


def test_few_images_get_more_steps_instead_of_accumulation():
    plan = make_plan(100_000, 100, 1)
    assert plan.recipe.accumulation < 40
    assert plan.steps >= 10_000
    assert plan.recipe.lr == pytest.approx(4.8 * plan.recipe.images_per_step / 4160, rel=1e-3)
    plan = make_plan(1000, 10, 1)
    assert plan.recipe.accumulation == 1
    few = f'1,800 optimizer steps are few: the paper takes {1539 * 200 // 5:,}.'
    assert any(few in sentence for sentence in cautions(plan))


def test_the_target_averages_over_at_most_a_hundredth_of_the_run():
    for images, momentum in ((1_000_000, 0.99), (1000, 0.944), (104, 0.9)):
        plan = make_plan(images, 10, 1)
        assert plan.recipe.target_momentum == momentum
        assert plan.steps / 100 >= 0.99 / (1 - momentum) or momentum == 0.9


def test_k_is_the_smallest_whose_risk_is_within_the_bound_and_larger_for_unequal_classes():
    plan = make_plan(IMAGENET, 100, 8, risk=1e-4)
    assert binom.sf(plan.k - 1, 103, 0.01) <= 1e-4 < binom.sf(plan.k - 2, 103, 0.01)
    (caution,) = cautions(plan)
    assert caution.startswith('an epoch has 1,539 iterations, no multiple of the accumulation, 5')
    shares = [0.03] * 10 + [0.7 / 90] * 90
    equal, unequal = (make_plan(IMAGENET, 100, 8, shares=s) for s in (None, shares))
    assert equal.k < unequal.k
    mixed = sum(p * binom.sf(unequal.k - 1, 103, p) for p in shares)
    assert unequal.false_deputy == pytest.approx(mixed)


def test_ranks_at_the_front_and_at_the_back_are_cautioned_against():
    far = cautions(make_plan(IMAGENET, 1000, 8, k=52))
    assert any('Rank 52 of 103 can be satisfied by 3 poles' in sentence for sentence in far)
    few_classes = make_plan(IMAGENET, 10, 8)
    assert few_classes.k == 10  # although the risk is high
    risky = f'chance of {binom.sf(9, 103, 0.1):.2g}, above 0.001'
    assert any(risky in sentence for sentence in cautions(few_classes))
    choices = rank_choices(make_plan(IMAGENET, 100, 8))
    assert [c.k for c in choices] == [1, 2, 5, 6, 10, 52]
    for side in ([c.risk for c in choices], [c.poles for c in choices]):
        assert side == sorted(side, reverse=True)


def test_what_cannot_be_planned_is_named():
    for settings, message in (
        ({'images': 0}, 'images = 0'),
        ({'classes': 0}, 'classes = 0'),
        ({'devices': 0}, 'gpus = 0'),
        ({'images': 5, 'devices': 4}, '5 images on 4 devices'),
        ({'largest_batch': 1}, 'holds 1 image, and'),
        ({'k': 104}, r'ranks 1\.\.103'),
    ):
        with pytest.raises(UserError, match=message):
            make_plan(**{'images': 10_000, 'classes': 10, **settings})
