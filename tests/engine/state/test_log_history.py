"""The log of a long run stays short, and what is read from it stays the same."""

from types import SimpleNamespace

import numpy as np
import pytest
from mmengine.logging import MessageHub

from ttl_mm.engine.state.log_history import KEPT, load_log, log_state, trim_log


def hub_with(values, name):
    hub = MessageHub(name)
    for value in values:
        hub.update_scalar('train/loss', float(value))
    return hub


def test_only_the_newest_values_are_kept():
    hub = hub_with(range(2 * KEPT + 5), 'long')
    trim_log(SimpleNamespace(message_hub=hub, log_processor=SimpleNamespace(custom_cfg=[])))
    log = hub.get_scalar('train/loss')
    assert np.array_equal(log.data[0], np.arange(KEPT + 5, 2 * KEPT + 5))
    assert log.current() == 2 * KEPT + 4
    assert log.mean(10) == pytest.approx(2 * KEPT - 0.5)


def test_a_config_with_averages_of_its_own_keeps_all():
    hub = hub_with(range(KEPT + 5), 'own averages')
    custom = [{'data_src': 'loss', 'method_name': 'mean', 'window_size': 'global'}]
    trim_log(SimpleNamespace(message_hub=hub, log_processor=SimpleNamespace(custom_cfg=custom)))
    assert len(hub.get_scalar('train/loss').data[0]) == KEPT + 5


def test_saved_and_loaded():
    hub, other = hub_with([3, 1, 2], 'saved'), MessageHub('loaded')
    load_log(other, log_state(hub))
    for found, expected in zip(other.get_scalar('train/loss').data, ([3, 1, 2], [1, 1, 1])):
        assert found.tolist() == expected
