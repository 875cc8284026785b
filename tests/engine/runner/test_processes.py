"""Runs in processes of their own; slow, since every process imports the stack."""

import os
import signal
import threading
from pathlib import Path

import pytest

from tests.helpers.toy_run import LONG, assert_same_run, run, wait_for_steps
from ttl_mm.engine.runner.processes import train_in_processes
from ttl_mm.engine.state.exit_codes import INTERRUPTED, USER_ERROR

pytestmark = [pytest.mark.faults, pytest.mark.parametrize('images', [44], indirect=True)]


def interrupt_when_it_trains(work: Path, ranks: int) -> threading.Thread:
    """Ctrl-C for this very process, from a thread."""

    def wait_and_interrupt():
        wait_for_steps(work, ranks, seconds=200)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait_and_interrupt)
    thread.start()
    return thread


@pytest.mark.parametrize('ranks', [1, 2])
def test_ctrl_c_saves_and_the_same_call_continues_to_the_same_weights(ranks, tmp_path, toy_config):
    config = toy_config(LONG.replace('100000', '400'), accumulation=3)
    work, log = tmp_path / 'work', tmp_path / 'log.txt'
    thread = interrupt_when_it_trains(work, ranks)
    assert train_in_processes(config, work, ranks, log) == INTERRUPTED, log.read_text()
    thread.join()
    assert train_in_processes(config, work, ranks, log) == 0, log.read_text()
    assert run(config, tmp_path / 'whole', ranks) == [0] * ranks
    assert_same_run(work, tmp_path / 'whole', ranks)


def test_the_code_of_a_rank_comes_through_torchrun(tmp_path, toy_config):
    log = tmp_path / 'log.txt'
    config = toy_config(more="load_from = 'nowhere.pth'\n")
    assert train_in_processes(config, tmp_path / 'work', 2, log) == USER_ERROR, log.read_text()
