import pytest

from ttl_mm.gauges.verdict import COLLAPSED, FLAT, LEARNING, LOSING, verdict


@pytest.mark.parametrize(
    ('kept', 'health', 'word'),
    [
        ([0.07, 0.12], 'healthy', LEARNING),
        ([0.07, 0.12], None, LEARNING),
        ([0.07, 0.12, 0.08], 'healthy', FLAT),  # it fell back
        ([0.07, 0.079], 'healthy', FLAT),  # within the noise
        ([1.0, 1.0], 'healthy', FLAT),  # views that are equal
        ([0.07, 0.12], 'losing dimensions', LOSING),
        ([0.07, 0.12], 'collapsed', COLLAPSED),
        ([], 'collapsed', COLLAPSED),
    ],
)
def test_one_word_and_its_evidence(kept, health, word):
    found, evidence = verdict(kept, [0.005] * len(kept), health)
    assert found == word
    assert ('neighbors' in evidence) == (word in (LEARNING, FLAT))


def test_nothing_is_said_without_two_judgments():
    nan = float('nan')
    for kept, errors in (([], []), ([0.1], [0.01]), ([0.1, 0.2], [0.01]), ([nan, 1], [0, 0])):
        assert verdict(kept, errors, 'healthy') is None
