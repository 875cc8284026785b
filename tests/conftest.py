"""Shared set-up: one thread per test process, so that two workers share two cores."""

import ctypes
import gc
import os
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path

os.environ.setdefault('OMP_NUM_THREADS', '1')

import ttl_mm.registry  # noqa: F401  isort: skip  guards torchvision before a test imports it
import pytest
from mmengine.config import Config
from mmengine.registry import DefaultScope

from tests.helpers.browser import CHROMIUM, chromium
from tests.helpers.paths import ROOT

LONGEST = (
    'test_tutorials', 'test_any_backbone', 'test_demo', 'test_backbone', 'test_job',
    'test_baselines', 'test_own_data', 'test_configs', 'test_resume_exact', 'test_formats',
    'test_compare', 'test_systems', 'test_sources', 'test_symptoms', 'test_efficiency_study',
    'test_slices', 'test_probe_hook', 'test_detection_runs', 'test_run', 'test_detection_configs',
    'test_mmselfsup_import', 'test_bands', 'test_canaries', 'test_stores', 'test_ranks',
    'test_networks', 'test_fuzz', 'test_registry', 'test_config', 'test_judge_hook',
    'test_result_hook', 'test_hostile', 'test_gauge_hook', 'test_windows', 'test_wheel',
    'test_store_job', 'test_preemption', 'test_stall', 'test_metafile', 'test_substitutes',
)  # fmt: skip


# of these, what `make matrix` runs all the same: from images to a backbone and a page
ALWAYS = ('tests/test_demo.py', 'tests/test_tutorials.py', 'tests/pretraining/test_job.py')


def pytest_collection_modifyitems(items):
    """The longest files go first, so that no worker is left alone with one of them at the end."""
    for item in items:
        if item.path.stem in LONGEST and not item.nodeid.startswith(ALWAYS):
            item.add_marker('long')
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


def pytest_collection_finish():
    """Keep what the tests import out of the garbage collector, which would look at it each time.

    mmengine collects garbage for every dataset it builds, and the first collection of a forked run
    would copy all memory that it shares with its parent.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope='session', autouse=True)
def own_cache(tmp_path_factory):
    """Lists of scanned folders and files of the zoo do not go into the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('XDG_CACHE_HOME', str(tmp_path_factory.mktemp('cache')))
        yield


@pytest.fixture(scope='session', autouse=True)
def recipes_read_once():
    """Seven files of tests read all recipes, and for each, and each of its bases, mmengine writes a
    file that it imports and deletes. What a test writes itself is read every time, and a recipe
    again in another environment, whose variables it may name.
    """
    read = Config._file2dict

    @cache
    def once(environment, filename, *arguments, **more):
        return read(filename, *arguments, **more)

    def read_once(filename, *arguments, **more):
        path = Path(filename)
        if path.is_relative_to(ROOT) or path.is_relative_to(sys.prefix):
            environment = frozenset(i for i in os.environ.items() if i[0] != 'PYTEST_CURRENT_TEST')
            return deepcopy(once(environment, str(filename), *arguments, **more))
        return read(filename, *arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Config, '_file2dict', staticmethod(read_once))
        yield


@pytest.fixture(scope='module', autouse=True)
def free_memory_goes_back():
    """After each file of tests. A fork copies the table of all pages, also of those that are free:
    with a gigabyte of them it takes a tenth of a second, and tests fork hundreds of runs.
    """
    yield
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), 'malloc_trim', None):  # of glibc
        trim(0)


@pytest.fixture
def mmdet_scope():
    """Short names are those of mmdet, for this test alone."""
    with DefaultScope.overwrite_default_scope('mmdet'):
        yield


@pytest.fixture(scope='module')
def browser():
    """For the pages of one file of tests, so that few other processes are forked meanwhile."""
    with chromium() as found:
        yield found


def pytest_terminal_summary(terminalreporter):
    """Say it in one line if pages were not looked at."""
    if CHROMIUM is None:
        terminalreporter.write_line(
            'Tests of pages were left out: no Chromium here; `make browser` installs it.'
        )
