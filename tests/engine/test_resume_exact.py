"""A run that was interrupted after every single step equals one that was not."""

import pytest

from tests.engine.toy_run import (
    EPOCHS,
    ITERATIONS,
    assert_same_run,
    make_images,
    run,
    write_config,
)
from ttl_mm.engine.exit_codes import PREEMPTED

STOP = "\ncustom_hooks = [dict(type='SignalHook', at={at})]\n"


def interrupted_everywhere(tmp_path, ranks=1, points=range(1, 20), **settings):
    """Train once in one go, and once with a preemption after each of ``points``."""
    images = make_images(tmp_path / 'images', 22 * ranks)
    plain = write_config(tmp_path / 'plain.py', images, **settings)
    assert run(plain, tmp_path / 'whole', ranks) == [0] * ranks
    for at in points:
        config = write_config(tmp_path / 'stop.py', images, more=STOP.format(at=at), **settings)
        assert run(config, tmp_path / 'parts', ranks) == [PREEMPTED] * ranks, at
    assert run(plain, tmp_path / 'parts', ranks) == [0] * ranks
    assert_same_run(tmp_path / 'parts', tmp_path / 'whole', ranks)


@pytest.mark.parametrize('loop', [EPOCHS, ITERATIONS], ids=['epochs', 'iterations'])
def test_every_step_in_the_middle_of_epochs_and_accumulation(tmp_path, loop):
    interrupted_everywhere(tmp_path, loop=loop, accumulation=3)
