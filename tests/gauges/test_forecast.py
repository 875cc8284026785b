"""Forecasts find planted curves, keep their coverage on the published runs, and say what fails."""

import json
from dataclasses import asdict

import numpy as np
import pytest
from scipy.optimize import curve_fit

from projects.judge_validation import forecasts as study
from ttl_mm.gauges.forecast import (
    BEHIND,
    COLLAPSE,
    KINDS,
    ON_TRACK,
    GainCurve,
    Reference,
    Tuning,
    calibrated,
    fit_gain,
    forecast,
    gain_of_more,
    look_ahead,
    outlook,
    references,
)

SHARES = np.array([0, 0.2, 0.4, 0.6, 0.8, 1.0])
REFERENCE = Reference(
    'kNN',
    exponent=0.25,
    bounds=dict.fromkeys(KINDS, (-0.5, 0.5)),
    unit=4.0,
    top=100.0,
    tuning=Tuning(trust=7.5, noise=0.25, fall=0.5),
    longer=(0.2, 0.3, 0.5),
    band=[(0.2, 0.1, 0.2), (1, 0.2, 0.3)],
)


def test_a_planted_curve_is_found_and_noise_is_fitted_as_by_scipy():
    exact = fit_gain(SHARES, 30 + 18 * SHARES**0.25, 0.25, trust=30)
    assert exact == pytest.approx((30, 18, 0.25, 1.0, 5), abs=1e-4)
    noisy = 30 + 18 * SHARES**0.4 + np.array([0, 0.5, -0.7, 0.3, 0.2, -0.4])
    found = fit_gain(SHARES, noisy, 0.25, trust=1e-5)  # no trust in the reference
    expected, _ = curve_fit(
        lambda s, gain, power: gain * s**power, SHARES[1:], noisy[1:] - noisy[0], p0=[10, 0.3]
    )
    assert (found.gain, found.exponent) == pytest.approx(tuple(expected), rel=1e-3)
    two = fit_gain([0, 0.2], [30, 40], 0.25, trust=30)  # a single value determines the gain alone
    assert two.exponent == pytest.approx(0.25, abs=1e-6)
    assert two.at(0.2) == pytest.approx(40, abs=1e-6)


def test_intervals_widen_with_the_distance_and_stay_within_what_is_possible():
    curve = GainCurve(30, 18, 0.25, seen=0.4)
    widths = [forecast(curve, length, REFERENCE) for length in (0.4, 1.0, 2.0)]
    assert all(one.low < one.expected < one.high for one in widths)
    assert np.all(np.diff([one.high - one.low for one in widths]) > 0)
    assert forecast(GainCurve(90, 20, 0.25, 0.4), 2.0, REFERENCE).high == 100


def test_calibrated_quantiles_hold_their_share_of_new_errors():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(400):
        low, high = calibrated(rng.normal(size=50))
        inside.append(np.mean((low <= (new := rng.normal(size=200))) & (new <= high)))
    assert np.mean(inside) == pytest.approx(0.8, abs=0.02)
    with pytest.raises(ValueError, match='5 errors'):
        calibrated(range(5))


def test_the_verdict_compares_with_the_band():
    for values, verdict in (
        ([30, 40], ON_TRACK),
        ([30, 31], BEHIND),
        ([30, 12], COLLAPSE),
    ):
        curve = fit_gain([0, 0.2], values, REFERENCE.exponent, trust=30)
        found, evidence = outlook(curve, REFERENCE)
        assert (found, '%' in evidence or 'untrained' in evidence) == (verdict, True)
    assert gain_of_more(2, REFERENCE) == pytest.approx((2**0.2, 2**0.3, 2**0.5))


@pytest.mark.parametrize('quantity', study.CURVES, ids=['accuracy', 'measure'])
def test_80_percent_intervals_hold_70_to_90_percent_of_held_out_methods(quantity):
    """From 20 % of a run on; exponent, constants and quantiles come from the other methods."""
    found = study.held_out_methods(quantity)
    for kind in KINDS:
        part = [one.inside for one in found if one.case.kind == kind]
        assert len(part) > 20
        assert 0.7 <= np.mean(part) <= 0.9, kind
    assert sum(one.case.length == 1 for one in found) > 100


@pytest.mark.parametrize('quantity', study.CURVES, ids=['accuracy', 'measure'])
def test_the_package_forecasts_by_what_the_published_runs_say(quantity):
    written = json.loads(json.dumps(asdict(study.reference(quantity))))
    assert json.loads(json.dumps(asdict(references()[quantity.key]))) == written


def test_constants_are_chosen_by_the_interval_score():
    rng = np.random.default_rng(0)
    curve = GainCurve(30, 18, 0.25, seen=0.4, values=4)
    found = [
        study.Case(family, curve, 1.0, 48 + error)
        for family in ('a', 'b', 'c')
        for error in rng.normal(size=20)
    ]
    found += [case._replace(length=length) for case in found for length in (0.5, 2.0)]
    found += [
        case._replace(curve=curve._replace(seen=seen))
        for case in found
        if case.length == 1
        for seen in (0.2, 0.8)
    ]
    scores = []
    for case in found:  # every score by its definition
        others = [c for c in found if c.family != case.family and c.kind == case.kind]
        low, high = calibrated([c.outcome - c.curve.at(c.length) for c in others])
        error = case.outcome - case.curve.at(case.length)
        scores.append(high - low + 10 * max(low - error, error - high, 0))
    tuning = Tuning(trust=7.5, noise=0.25, fall=0.5)
    assert study.mean_score(found, tuning, 4.0) == pytest.approx(np.mean(scores))


def test_an_outlook_needs_the_untrained_network_and_a_fifth_of_the_run():
    values = 30 + 18 * SHARES**0.25
    found = look_ahead(study.KNN, 100 * SHARES[:3], values[:3], 100)
    assert found.seen == pytest.approx(0.4)
    assert list(found.ends) == [0.5, 1.0, 2.0]
    assert found.ends[1.0].low < 48 < found.ends[1.0].high
    assert str(found).startswith('kNN top-1 4')
    for steps, some in (([], []), ([0], [30]), ([5, 40], [1, 2]), ([0, 10], [1, 2])):
        assert look_ahead(study.KNN, steps, some, 100) is None
    assert look_ahead(study.KNN, [0, 40], [30, np.nan], 100) is None
    kept = look_ahead(study.KEPT.key, [0, 40], [0.07, 0.12], 100)  # logged as a share
    assert kept.now == pytest.approx(12)


def test_a_network_that_is_perfect_untrained_has_nothing_left_to_gain():
    found = look_ahead(study.KNN, [0, 50], [100, 100], 100)
    assert (found.verdict, found.ends[1.0].expected) == ('on track', 100)


def test_impossible_curves_are_refused_with_their_values():
    for shares, values in (([0.1, 0.2], [1, 2]), ([0], [1]), ([0, 0.2], [1, np.nan])):
        with pytest.raises(ValueError, match=r'\['):
            fit_gain(shares, values, 0.25, 30)
