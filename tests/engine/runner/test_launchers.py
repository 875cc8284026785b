"""The scripts themselves, as a user starts them: slow, since every process imports the stack."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.helpers.scripts import assert_no_orphans, launch
from tests.helpers.slurm import requeued, stand_ins
from tests.helpers.toy_run import LONG, assert_same_run, curve, free_port, run, wait_for_steps
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.engine.state.exit_codes import PREEMPTED, STALLED, USER_ERROR

BREAK = """
custom_imports['imports'].append('tests.engine.guards.test_stall')
custom_hooks = [dict(type='BreakHook')]
"""
pytestmark = [pytest.mark.faults, pytest.mark.parametrize('images', [44], indirect=True)]


@pytest.fixture
def long_run(toy_config):
    """A function that starts a job on two ranks and returns it when it trains."""
    return lambda **more: launch('dist_train.sh', toy_config(LONG, 2, **more), '2', train=True)


@pytest.fixture
def config(tmp_path, toy_config):
    """A config, and the run that it gives if nobody interrupts it, in ``whole``."""
    path = toy_config(LONG.replace('100000', '400'), workers=1, accumulation=3)
    assert run(path, tmp_path / 'whole', ranks=2) == [0, 0]
    return path


def trainers(job):
    """The ranks: children of torchrun, which is the child of the script."""
    (torchrun,) = children(job.pid)
    return sorted(children(torchrun))


def children(pid):
    return [int(p) for p in Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]


def test_a_run_with_one_rank_killed(long_run):
    job = long_run()
    os.kill(trainers(job)[1], signal.SIGKILL)
    killed = time.monotonic()
    assert job.wait(60) != 0
    assert time.monotonic() - killed <= 10
    assert_no_orphans(job)


@pytest.mark.parametrize('stopped', [0, 1])
def test_a_run_with_one_rank_stopped(tmp_path, long_run, stopped):
    job = long_run(timeout=5)
    environments = {pid: Path(f'/proc/{pid}/environ').read_text() for pid in trainers(job)}
    (victim,) = (pid for pid, text in environments.items() if f'\0RANK={stopped}\0' in text)
    os.kill(victim, signal.SIGSTOP)
    began = time.monotonic()
    assert job.wait(100) == STALLED
    assert time.monotonic() - began <= 5 + 35
    assert f'rank {stopped} does not answer' in (tmp_path / 'work.log').read_text()
    assert_no_orphans(job)


def test_a_run_whose_launcher_is_killed(long_run):
    job = long_run()
    for pid in [job.pid, *children(job.pid)]:
        os.kill(pid, signal.SIGKILL)
    job.wait(10)
    assert_no_orphans(job)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGUSR1])
def test_preemption_of_the_script_and_exact_resume(tmp_path, config, number):
    work = tmp_path / 'work'
    job = launch('dist_train.sh', config, '2', train=True)
    job.send_signal(number)
    assert job.wait(60) == PREEMPTED
    assert max(curve(work)) < 400
    assert_no_orphans(job)
    assert launch('dist_train.sh', config, '2', '--resume').wait(200) == 0
    assert_same_run(tmp_path / 'work', tmp_path / 'whole', ranks=2)


def test_errors_of_the_user_are_one_line_and_code_2(tmp_path, toy_config):
    typo = '--cfg-options', 'optim_wrapper.optimizer.lrr=1'
    job = launch('dist_train.sh', toy_config(), '2', *typo)
    assert job.wait(100) == USER_ERROR
    log = (tmp_path / 'work.log').read_text()
    assert "Did you mean 'lr'?" in log
    assert 'train(' not in log  # no traceback of ours


def slurm(tmp_path, config, train=True, **environment):
    """Start the Slurm script with stand-ins for srun and scontrol; the job, and its ranks' ids."""
    env = stand_ins(tmp_path, TTL_EXIT_FILE=str(tmp_path / 'exit'), **environment)
    job = launch('slurm_train.sh', config, train=train, **env)
    return job, [int(pid) for pid in (tmp_path / 'tasks').read_text().split()] if train else []


def test_slurm_requeues_and_resumes(tmp_path, config):
    job, ranks = slurm(tmp_path, config)
    for pid in ranks:
        os.kill(pid, signal.SIGUSR1)
    assert job.wait(200) == PREEMPTED
    assert slurm(tmp_path, config, train=False)[0].wait(200) == 0
    assert requeued(tmp_path) == ['77']
    assert_same_run(tmp_path / 'work', tmp_path / 'whole', ranks=2)


def test_slurm_scancel_saves_and_does_not_requeue(tmp_path, config):
    job, ranks = slurm(tmp_path, config, JOB_STATE='COMPLETING')
    for pid in ranks:
        os.kill(pid, signal.SIGTERM)
    assert job.wait(200) == PREEMPTED
    assert sealed_files(tmp_path / 'work')
    assert requeued(tmp_path) == []


@pytest.mark.parametrize('kill', ['yes', 'no'])
def test_slurm_ends_with_the_error_of_one_rank(tmp_path, toy_config, kill):
    """Rank 0 fails, and rank 1 is blocked, also where srun does not kill it."""
    config = toy_config(LONG, timeout=1800, more=BREAK)
    job, _ = slurm(tmp_path, config, CAN_KILL=kill)
    began = time.monotonic()
    assert job.wait(100) == USER_ERROR
    took = time.monotonic() - began
    print(f'ended after {took:.0f} s')
    assert took <= 60
    assert 'rank 0 was the first to end, with code 2' in (tmp_path / 'work.log').read_text()
    assert requeued(tmp_path) == []
    assert_no_orphans(job)


def test_slurm_names_a_silent_rank_and_requeues(tmp_path, toy_config):
    job, ranks = slurm(tmp_path, toy_config(LONG, timeout=1800))
    os.kill(ranks[1], signal.SIGSTOP)
    began = time.monotonic()
    assert job.wait(150) == STALLED
    took = time.monotonic() - began
    print(f'ended after {took:.0f} s')
    assert took <= 90
    log = (tmp_path / 'work.log').read_text()
    assert 'stopped rank 0: rank 1 does not answer' in log
    assert requeued(tmp_path) == ['77']


def test_two_machines_end_together(tmp_path, toy_config):
    """Torchrun on each, rank 0 fails; the other machine neither waits for 1800 s nor restarts."""
    config = toy_config(LONG, timeout=1800, more=BREAK)
    place = dict(
        NNODES='2', MASTER_ADDR='127.0.0.1', PORT=str(free_port()),
        TTL_EXIT_FILE=str(tmp_path / 'shared'),
    )  # fmt: skip
    jobs = [launch('dist_train.sh', config, '1', NODE_RANK=str(node), **place) for node in (0, 1)]
    wait_for_steps(tmp_path / 'work', seconds=200)
    began = time.monotonic()
    assert [job.wait(100) for job in jobs] == [USER_ERROR, USER_ERROR]
    took = time.monotonic() - began
    print(f'ended after {took:.0f} s')
    assert took <= 60
    for job in jobs:
        assert_no_orphans(job)


@pytest.mark.parametrize('ranks', [1, 2])
@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_to_the_whole_process_group_saves(tmp_path, toy_config, number, workers, ranks):
    config, work = toy_config(LONG, workers=workers), tmp_path / 'work'
    if ranks == 1:
        job = launch('train.py', config)
        wait_for_steps(work, 1, 200, alive=lambda: job.poll() is None)
    else:
        job = launch('dist_train.sh', config, '2', train=True)
    os.killpg(job.pid, number)
    assert job.wait(60) == PREEMPTED
    assert sealed_files(work)[0][1].iteration == max(curve(work))
    assert_no_orphans(job)
