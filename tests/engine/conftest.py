from functools import partial

import pytest

from tests.helpers.toy_run import make_images, run, write_config


@pytest.fixture(scope='session')
def images(request, tmp_path_factory):
    """22 of them, or as many as a test says: four epochs of five batches of a rank."""
    return make_images(tmp_path_factory.mktemp('images'), getattr(request, 'param', 22))


@pytest.fixture
def toy_config(tmp_path, images):
    """A function that writes a toy config with the settings it is given, and returns its path."""
    return partial(write_config, tmp_path / 'config.py', images)


@pytest.fixture
def toy(tmp_path, toy_config):
    """A function that trains with such a config in ``tmp_path / work``; returns the exit codes."""

    def train(
        work='work', ranks=1, prepare=None, cfg_options=None, resume='auto',
        options=None, **settings
    ):  # fmt: skip
        options = dict(options or {}, cfg_options=cfg_options, resume=resume)
        return run(toy_config(**settings), tmp_path / work, ranks, prepare, **options)

    return train
