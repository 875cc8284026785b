from dataclasses import asdict, replace

import pytest

from ttl_mm.engine.state.run_settings import RunSettings

FIRST_SPELLING = {
    'world size': 2, 'batch size per rank': 4, 'images': 22, 'iterations per epoch': 2,
    'accumulative_counts': 3, 'seed': 7,
}  # fmt: skip
RUN = RunSettings(**{name.replace(' ', '_'): value for name, value in FIRST_SPELLING.items()})


def test_a_saved_run_reads_as_it_was_and_so_does_the_first_spelling():
    assert RunSettings.from_saved(asdict(RUN)) == RUN
    assert RunSettings.from_saved(FIRST_SPELLING) == RUN


@pytest.mark.parametrize(
    ('change', 'word'),
    [({'seed': '7'}, 'seed'), ({'seed': True}, 'seed'), ({'seeds': 7}, 'seeds'), (None, 'images')],
)
def test_settings_that_are_none_are_named(change, word):
    with pytest.raises(ValueError, match=word):
        RunSettings.from_saved({} if change is None else {**asdict(RUN), **change})


def test_changes_name_the_numbers_in_words():
    assert RUN.changes(RUN) == []
    now = replace(RUN, world_size=1, iterations_per_epoch=5)
    assert RUN.changes(now) == ['world size 2 -> 1', 'iterations per epoch 2 -> 5']
    assert RUN.batch_size == 8  # of all ranks
