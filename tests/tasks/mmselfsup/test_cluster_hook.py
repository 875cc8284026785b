"""The settings of the hook; test_systems.py trains with it."""

import pytest

from ttl_mm.errors import UserError
from ttl_mm.tasks.mmselfsup.cluster_hook import ClusterHook


def test_wrong_settings_are_errors_that_name_the_remedy():
    for settings, message in (
        ({'k': 7}, 'k is now called num_clusters: set num_clusters=7'),
        ({}, 'ClusterHook needs num_clusters'),
        ({'num_clusters': 7, 'interval': 0}, 'interval=0: use at least 1'),
    ):
        with pytest.raises(UserError, match=message):
            ClusterHook(dataset={}, **settings)
