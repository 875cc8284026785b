from dataclasses import asdict, replace

from ttl_mm.engine.state.run_settings import RunSettings

RUN = RunSettings(
    world_size=2, batch_size_per_rank=4, images=22, iterations_per_epoch=2, accumulative_counts=3,
    seed=7,
)  # fmt: skip


def test_a_saved_run_reads_as_it_was_and_so_does_the_first_spelling():
    assert RunSettings.from_saved(asdict(RUN)) == RUN
    first = {
        'world size': 2, 'batch size per rank': 4, 'images': 22, 'iterations per epoch': 2,
        'accumulative_counts': 3, 'seed': 7,
    }  # fmt: skip
    assert RunSettings.from_saved(first) == RUN


def test_changes_name_the_numbers_in_words():
    assert RUN.changes(RUN) == []
    now = replace(RUN, world_size=1, iterations_per_epoch=5)
    assert RUN.changes(now) == ['world size 2 -> 1', 'iterations per epoch 2 -> 5']


def test_the_batch_is_that_of_all_ranks():
    assert RUN.batch_size == 8
