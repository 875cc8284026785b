import pytest

from ttl_mm.planning import trial


def test_the_first_third_of_the_steps_does_not_count():
    measured = {'start_up': 1, 'preparation': 0, 'save': 1, 'checkpoint': 2, 'memory': 3}
    measured['cpu'] = [5, 5, 5, 1, 1, 1, 1, 1, 1]
    found = trial.read_trial({**measured, 'steps': [9, 9, 9, 1, 2, 3, 1, 2, 3]})
    assert (found.step, found.steps, found.cpu) == (2, 6, 1)
    assert found.warm_up == 3 * 9 - 3 * 2
    assert trial.read_trial({**measured, 'steps': [9, 9, 4, 6]}).step == 5


@pytest.mark.parametrize(
    ('code', 'log', 'reason'),
    [
        (-9, '', 'the memory does not suffice'),
        (1, 'RuntimeError: CUDA out of memory. Tried', 'the memory does not suffice'),
        (2, 'noise\nerror: no images: add some\n\n', 'ended with code 2: no images: add some'),
        (1, '', 'it printed nothing'),
    ],
)
def test_a_trial_that_fails_says_why(code, log, reason):
    assert reason in trial._reason(code, log)
