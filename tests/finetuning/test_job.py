"""The sentence about both starts; ``tests/helpers/finetuning.py`` has what every command does."""

from ttl_mm.finetuning.job import verdict


def test_the_verdict_names_both_figures():
    assert 'is ahead of random weights under the same budget: mIoU 50.0 and 40.0 %' in verdict(
        'mIoU', [0.5, 0.4]
    )
    assert 'is not ahead of random weights' in verdict('box AP50', [0.4, 0.5])
    assert 'is not ahead of' in verdict('box AP50', [0.4, 0.4])
    assert verdict('mIoU', [0.5]) == ''
