"""Every verdict at both sides of its bound, on figures made by hand."""

import pytest
import torch

from ttl_mm.selftest import checks
from ttl_mm.selftest.checks import FAIL, NOT_APPLICABLE, PASS


def test_errors_are_judged_by_those_of_the_cpu():
    def status(loss, gradient):
        cpu, floor = {'loss': 0.1, 'gradient': 0.2}, {'loss': 0.01, 'gradient': 0.02}
        device = {'loss': loss, 'gradient': gradient}
        return checks.check_gradient('x', device, cpu, floor).status

    assert status(0.31, 0.61) == PASS
    assert status(0.32, 0.61) == status(0.31, 0.63) == status(0.1, float('nan')) == FAIL


def test_a_gradient_of_zeros_fails_however_coarse_the_precision():
    def status(device, cpu):
        found = [{'loss': 0.0, 'gradient': gradient} for gradient in (device, cpu)]
        return checks.check_gradient('x', *found, checks.MIXED_FLOOR).status

    assert status(0.6, cpu=0.5) == PASS
    assert status(1.0, cpu=0.5) == FAIL
    assert status(0.6, cpu=0.95) == NOT_APPLICABLE  # which knows no better


def test_ops_missing_right_and_wrong():
    built = {'device': 'cuda', 'built_for': 'CUDA 12.4'}
    assert checks.check_ops({'device': 'cpu', 'missing': 'none'}).status == NOT_APPLICABLE
    assert checks.check_ops(built).status == PASS
    wrong = checks.check_ops({**built, 'wrong': 'not compiled with GPU support'})
    assert (wrong.status, 'not compiled' in wrong.found) == (FAIL, True)


def test_a_group_must_give_the_sum_of_its_ranks():
    def status(*sums):
        ranks = [{'sum': s, 'interface': 'ib0', 'seconds': 0.001} for s in sums]
        return checks.check_group('nccl', ranks).status

    assert status(6, 6, 6) == PASS
    assert status(6, 6, 5) == FAIL


def test_ranks_that_differ_are_named():
    same = checks.check_same_on_ranks('x', ['a', 'a', 'a'], 'weights')
    other = checks.check_same_on_ranks('x', ['a', 'b', 'a'], 'weights')
    assert (same.status, other.status) == (PASS, FAIL)
    assert '0, 2 | 1' in other.found


@pytest.mark.parametrize(
    ('scales', 'moved', 'logged', 'words'),
    [
        ([8, 4, 4], [True, False, True], True, 'skipped, logged, went on'),
        ([8, 8, 8], [True, False, True], True, 'stayed at 8'),
        ([8, 4, 4], [True, True, True], True, 'were changed'),
        ([8, 4, 4], [True, False, False], True, 'no later step'),
        ([8, 4, 4], [True, False, True], False, 'no line'),
    ],
)
def test_what_an_infinity_must_and_must_not_do(scales, moved, logged, words):
    check = checks.check_infinity(2, [scales, scales], [moved, moved], logged)
    assert check.status == (PASS if 'went on' in words else FAIL)
    assert words in check.found


def test_ranks_must_agree_on_an_infinity():
    moved = [[True, False, True]] * 2
    check = checks.check_infinity(2, [[8, 4, 4], [8, 8, 8]], moved, logged=True)
    assert (check.status, 'disagree' in check.found) == (FAIL, True)


def test_a_resumed_run_is_equal_or_within_the_bound():
    start, end = {'w': torch.zeros(4)}, {'w': torch.full((4,), 10.0)}

    def status(off, exact):
        return checks.check_resume(end, {'w': end['w'] + off}, start, exact).status

    assert status(0.0, exact=True) == PASS
    assert status(0.4, exact=True) == FAIL
    assert status(0.4, exact=False) == PASS  # 4 % of the way
    assert status(0.6, exact=False) == status(float('nan'), exact=False) == FAIL
    assert checks.check_resume(end, {'v': end['w']}, start, exact=False).status == FAIL


def test_a_checkpoint_too_large_or_cut_short():
    def status(size):
        return checks.check_size({'a': size}, {'a': 10**9}, ranks=8).status

    assert status(1.05 * 10**9) == PASS
    assert status(1.15 * 10**9) == status(0.9 * 10**9) == FAIL


def test_speed_and_memory():
    assert [checks.check_speed(100, wait).status for wait in (0.4, 0.6)] == [PASS, FAIL]
    peaks = (1.0, 1.2)
    assert [checks.check_memory(int(p * 2**30), 2**30).status for p in peaks] == [PASS, FAIL]
    assert checks.check_memory(2**30, 1.0, slack=2**30).status == PASS
