"""Gloo takes the interface that was chosen for NCCL, by NCCL's rules."""

import os
from datetime import timedelta

import pytest
from torch.distributed import distributed_c10d

from tests.helpers.two_processes import in_two_processes
from ttl_mm.engine.state import control_group
from ttl_mm.engine.state.control_group import gloo_interface, init_gloo
from ttl_mm.errors import UserError

NAMES = ['lo', 'eno1', 'eno12', 'ib0', 'docker0']


def test_rules_of_nccl():
    for rule, expected in {
        'ib': 'ib0',
        'eth,ib': 'ib0',
        'eno1': 'eno1',
        '=eno12': 'eno12',
        '^docker,lo,eno': 'ib0',
        '^=eno1,eno12,docker0': 'ib0',
        'wlan': 'wlan',  # not there: gloo's error shows it
    }.items():
        assert gloo_interface(rule, NAMES) == expected, rule


def test_an_interface_that_is_not_there_is_an_error_that_says_what_to_set(monkeypatch):
    monkeypatch.setenv('NCCL_SOCKET_IFNAME', 'wlan7')
    monkeypatch.setenv('GLOO_SOCKET_IFNAME', '')  # so that it is put back in the end
    monkeypatch.delenv('GLOO_SOCKET_IFNAME')
    seen = []

    def refuse(**settings):
        seen.append((settings['backend'], os.environ['GLOO_SOCKET_IFNAME']))
        raise RuntimeError('unable to find address')

    monkeypatch.setattr(control_group.dist, 'init_process_group', refuse)
    with pytest.raises(UserError, match=r"GLOO_SOCKET_IFNAME='wlan7'.* Set GLOO_SOCKET_IFNAME"):
        init_gloo(None)
    assert seen == [('gloo', 'wlan7')]


def exchange(rank):
    before = control_group.control_group() is None
    for _ in range(2):
        control_group.make_control_group(timedelta(seconds=60))
    groups = [group.group_desc for group in distributed_c10d._world.pg_map]
    values = control_group.gather(rank), control_group.from_first(f'of {rank}')
    return [before, groups.count(control_group.NAME), *values]


def test_there_is_one_group_however_often_it_is_asked_for(tmp_path):
    assert in_two_processes(tmp_path, exchange) == [[True, 1, [0, 1], 'of 0']] * 2
