import pytest
from scipy.stats import binom

from ttl_mm.errors import UserError
from ttl_mm.planning import PAPER, cautions, equivalences, make_plan, rank_choices

IMAGENET = 1_281_167


def broken(plan):
    return {e.quantity for e in equivalences(plan) if not e.holds}


def test_the_papers_data_and_hardware_give_the_papers_recipe():
    plan = make_plan(IMAGENET, 1000, devices=8, k=52)
    assert plan.recipe == PAPER
    assert broken(plan) == set()
    assert plan.steps == 1539 * 200 // 5  # 1,540 with the last, incomplete batch


@pytest.mark.parametrize(('devices', 'accumulation'), [(1, 40), (2, 20), (4, 10), (40, 1)])
def test_accumulation_makes_up_for_missing_devices(devices, accumulation):
    recipe = make_plan(IMAGENET, 1000, devices, k=52).recipe
    assert (recipe.accumulation, recipe.images_per_step, recipe.lr) == (accumulation, 4160, 4.8)


def test_other_numbers_of_gpus_break_only_the_batch_statistics():
    for devices, noise in ((1, 'noisier'), (40, 'smoother')):
        plan = make_plan(IMAGENET, 1000, devices, k=52)
        (differs,) = (e for e in equivalences(plan) if not e.holds)
        assert differs[:1] + differs[4:] == ('images per BN statistic', f'{noise} batch statistics')


def test_little_memory_changes_the_negatives_and_the_batch_statistics():
    plan = make_plan(IMAGENET, 1000, 8, largest_batch=48)
    assert plan.negatives == 47
    assert plan.recipe.accumulation == 11  # 4224 images per step, the nearest to 4160
    assert plan.recipe.lr == pytest.approx(4.8 * 4224 / 4160, rel=1e-3)
    assert {'negatives per anchor', 'images per BN statistic'} <= broken(plan)


def test_much_memory_does_not_change_the_negatives():
    assert make_plan(IMAGENET, 1000, 8, largest_batch=500).negatives == 103


def test_few_images_get_more_steps_instead_of_accumulation():
    plan = make_plan(100_000, 100, 1)
    assert plan.recipe.accumulation < 40
    assert plan.steps >= 10_000
    assert plan.recipe.lr == pytest.approx(4.8 * plan.recipe.images_per_step / 4160, rel=1e-3)


def test_very_few_images_are_said_to_take_few_steps():
    plan = make_plan(1000, 10, 1)
    assert plan.recipe.accumulation == 1
    steps = 1_281_167 // (8 * 104) * 200 // 5  # those of the paper
    few = f'1,800 optimizer steps are few: the paper takes {steps:,}.'
    assert any(few in sentence for sentence in cautions(plan))


@pytest.mark.parametrize(('images', 'momentum'), [(1_000_000, 0.99), (1000, 0.944), (104, 0.9)])
def test_the_target_averages_over_at_most_a_hundredth_of_the_run(images, momentum):
    plan = make_plan(images, 10, 1)
    assert plan.recipe.target_momentum == momentum
    assert plan.steps / 100 >= 0.99 / (1 - momentum) or momentum == 0.9


def test_the_batch_never_exceeds_the_images_of_a_device():
    assert make_plan(100, 10, devices=2).recipe.batch == 50


def test_the_warm_up_keeps_its_share_of_the_epochs():
    assert make_plan(IMAGENET, 1000, 8, epochs=700).recipe.warmup_epochs == 35
    assert make_plan(IMAGENET, 1000, 8, epochs=5).recipe.warmup_epochs == 1


def test_k_is_the_smallest_whose_risk_is_within_the_bound():
    plan = make_plan(IMAGENET, 100, 8, risk=1e-4)
    assert binom.sf(plan.k - 1, 103, 0.01) <= 1e-4 < binom.sf(plan.k - 2, 103, 0.01)
    (caution,) = cautions(plan)
    assert caution.startswith('1539 iterations per epoch are not a multiple of the accumulation, 5')


def test_unequal_classes_need_a_larger_k():
    shares = [0.03] * 10 + [0.7 / 90] * 90
    equal, unequal = (make_plan(IMAGENET, 100, 8, shares=s) for s in (None, shares))
    mixed = sum(p * binom.sf(unequal.k - 1, 103, p) for p in shares)
    assert equal.k < unequal.k
    assert unequal.false_deputy == pytest.approx(mixed)


def test_a_rank_that_few_poles_satisfy_is_cautioned_against():
    sentences = cautions(make_plan(IMAGENET, 1000, 8, k=52))
    assert any('Rank 52 of 103 can be satisfied by 3 poles' in s for s in sentences)


def test_with_few_classes_k_stays_near_the_front_and_the_risk_is_said():
    plan = make_plan(IMAGENET, 10, 8)
    assert plan.k == 10
    risk = binom.sf(9, 103, 0.1)
    assert any(f'chance of {risk:.2g}, above 0.001' in s for s in cautions(plan))


def test_rank_choices_show_both_sides():
    choices = rank_choices(make_plan(IMAGENET, 100, 8))
    assert [c.k for c in choices] == [1, 2, 5, 6, 10, 52]
    assert sorted((c.risk for c in choices), reverse=True) == [c.risk for c in choices]
    assert sorted((c.poles for c in choices), reverse=True) == [c.poles for c in choices]


@pytest.mark.parametrize(
    ('settings', 'message'),
    [
        ({'images': 0}, 'images = 0'),
        ({'classes': 0}, 'classes = 0'),
        ({'devices': 0}, 'gpus = 0'),
        ({'images': 5, 'devices': 4}, '5 images on 4 devices'),
        ({'largest_batch': 1}, 'holds 1 images'),
        ({'k': 104}, r'ranks 1\.\.103'),
    ],
)
def test_what_cannot_be_planned_is_named(settings, message):
    with pytest.raises(UserError, match=message):
        make_plan(**{'images': 10_000, 'classes': 10, **settings})
