"""The scripts themselves, as a user starts them: slow, since every process imports the stack."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import LONG, assert_same_run, curve, free_port, run, wait_for_steps
from ttl_mm.engine.state.exit_codes import PREEMPTED, STALLED, USER_ERROR

pytestmark = [pytest.mark.faults, pytest.mark.parametrize('images', [44], indirect=True)]


def launch(script, config, *options, train=False, **environment):
    """Start a script in a session of its own; with ``train`` wait until it trains."""
    work = config.with_name('work')
    command = [ROOT / 'tools' / script, config, *options, '--work-dir', work]
    env = {**os.environ, 'PYTHON': sys.executable, 'PYTHONPATH': str(ROOT), **environment}
    with open(f'{work}.log', 'a') as log:
        job = subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True)
    if train:  # the imports of the scripts take their time
        wait_for_steps(work, seconds=200, alive=lambda: job.poll() is None)
    return job


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


def processes(session):
    """Ids of all processes of a session, by what /proc says."""
    found = []
    for stat in Path('/proc').glob('[0-9]*/stat'):
        try:
            after_name = stat.read_text().rpartition(')')[2].split()
        except OSError:
            continue
        if int(after_name[3]) == session and after_name[0] != 'Z':
            found.append(int(stat.parent.name))
    return found


def assert_no_orphans(job, seconds=10):
    """Data-loader workers look for their parent every few seconds."""
    deadline = time.monotonic() + seconds
    while left := processes(job.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


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


SRUN = """#!/usr/bin/env bash
trap - USR1 TERM  # tasks are children of a daemon, not of the script
while [[ $1 == --* ]]; do shift; done
for rank in $(seq 0 $((SLURM_NTASKS - 1))); do
    SLURM_PROCID=$rank SLURM_LOCALID=$rank "$@" &
    echo $! >> "$TASKS"
done
code=0
for pid in $(tail -n $SLURM_NTASKS "$TASKS"); do
    wait $pid || { c=$?; [ $c -gt $code ] && code=$c; }
done
exit $code
"""
SCONTROL = """#!/usr/bin/env bash
case $1 in show) echo 127.0.0.1 ;; requeue) echo "$2" >> "$REQUEUED" ;; esac
"""


def test_slurm_requeues_and_resumes(tmp_path, config):
    """With stand-ins for srun and scontrol."""
    for name, script in (('srun', SRUN), ('scontrol', SCONTROL)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    tasks, requeued = tmp_path / 'tasks', tmp_path / 'requeued'
    slurm = dict(
        PATH=f'{tmp_path}:{os.environ["PATH"]}', MASTER_PORT=str(free_port()), TASKS=str(tasks),
        REQUEUED=str(requeued), SLURM_NTASKS='2', SLURM_JOB_ID='77', SLURM_JOB_NODELIST='node',
        SLURM_NODELIST='node', SLURM_SUBMIT_DIR=str(ROOT),
    )  # fmt: skip
    job = launch('slurm_train.sh', config, train=True, **slurm)
    for pid in tasks.read_text().split():
        os.kill(int(pid), signal.SIGUSR1)
    assert job.wait(200) == PREEMPTED
    assert launch('slurm_train.sh', config, **slurm).wait(200) == 0
    assert requeued.read_text() == '77\n'
    assert_same_run(tmp_path / 'work', tmp_path / 'whole', ranks=2)
