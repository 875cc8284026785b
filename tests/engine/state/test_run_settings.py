from dataclasses import asdict, replace

from ttl_mm.engine.state.run_settings import RunSettings

FIRST_SPELLING = {
    'world size': 2, 'batch size per rank': 4, 'images': 22, 'iterations per epoch': 2,
    'accumulative_counts': 3, 'seed': 7,
}  # fmt: skip
RUN = RunSettings(**{name.replace(' ', '_'): value for name, value in FIRST_SPELLING.items()})


def test_a_saved_run_reads_as_it_was_and_so_does_the_first_spelling():
    assert RunSettings.from_saved(asdict(RUN)) == RUN
    assert RunSettings.from_saved(FIRST_SPELLING) == RUN


def test_changes_name_the_numbers_in_words():
    assert RUN.changes(RUN) == []
    now = replace(RUN, world_size=1, iterations_per_epoch=5)
    assert RUN.changes(now) == ['world size 2 -> 1', 'iterations per epoch 2 -> 5']
    assert RUN.batch_size == 8  # of all ranks
