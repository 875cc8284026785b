"""Shared set-up: one thread per test process, so that two workers share two cores."""

import os

os.environ.setdefault('OMP_NUM_THREADS', '1')

import ttl_mm.registry  # noqa: F401  isort: skip  guards torchvision before a test imports it
import pytest


@pytest.fixture(scope='session', autouse=True)
def own_cache(tmp_path_factory):
    """Lists of scanned folders and files of the zoo do not go into the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('XDG_CACHE_HOME', str(tmp_path_factory.mktemp('cache')))
        yield
