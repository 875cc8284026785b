"""The scripts themselves, as a user starts them: slow, since every process imports the stack."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import (
    assert_same_run,
    curve,
    free_port,
    make_images,
    run,
    wait_for_steps,
    write_config,
)
from ttl_mm.engine.state.exit_codes import PREEMPTED, STALLED, USER_ERROR

LONG = "dict(type='IterBasedTrainLoop', max_iters=100000)"


@pytest.fixture(scope='module')
def images(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp('images'), 44)


def launch(config, work, *options):
    """Start ``dist_train.sh`` in a session of its own."""
    environment = {**os.environ, 'PYTHON': sys.executable, 'PYTHONPATH': str(ROOT)}
    command = [ROOT / 'tools' / 'dist_train.sh', config, '2', '--work-dir', work, *options]
    with open(f'{work}.log', 'a') as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, start_new_session=True
        )


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


def trainers(job):
    """The ranks: children of torchrun, which is the child of the script."""
    (torchrun,) = children(job.pid)
    return sorted(children(torchrun))


def children(pid):
    return [int(p) for p in Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]


def wait_for_training(job, work):
    """The imports of the scripts take their time."""
    wait_for_steps(work, seconds=200, alive=lambda: job.poll() is None)


def launch_long_run(tmp_path, images, **settings):
    """A job that trains on two ranks, and its work dir."""
    config = write_config(tmp_path / 'config.py', images, LONG, workers=2, **settings)
    job = launch(config, tmp_path / 'work')
    wait_for_training(job, tmp_path / 'work')
    return job, tmp_path / 'work'


def assert_no_orphans(job, seconds=10):
    """Data-loader workers look for their parent every few seconds."""
    deadline = time.monotonic() + seconds
    while left := processes(job.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


@pytest.mark.faults
def test_a_run_with_one_rank_killed(tmp_path, images):
    job, _ = launch_long_run(tmp_path, images)
    os.kill(trainers(job)[1], signal.SIGKILL)
    killed = time.monotonic()
    assert job.wait(60) != 0
    assert time.monotonic() - killed <= 10
    assert_no_orphans(job)


@pytest.mark.faults
@pytest.mark.parametrize('stopped', [0, 1])
def test_a_run_with_one_rank_stopped(tmp_path, images, stopped):
    job, work = launch_long_run(tmp_path, images, timeout=5)
    victim = next(pid for pid in trainers(job) if environment(pid)['RANK'] == str(stopped))
    os.kill(victim, signal.SIGSTOP)
    began = time.monotonic()
    assert job.wait(100) == STALLED
    assert time.monotonic() - began <= 5 + 35
    assert f'rank {stopped} does not answer' in Path(f'{work}.log').read_text()
    assert_no_orphans(job)


def environment(pid):
    pairs = Path(f'/proc/{pid}/environ').read_bytes().decode().split('\0')
    return dict(pair.split('=', 1) for pair in pairs if '=' in pair)


@pytest.mark.faults
def test_a_run_whose_launcher_is_killed(tmp_path, images):
    job, _ = launch_long_run(tmp_path, images)
    for pid in [job.pid, *children(job.pid)]:
        os.kill(pid, signal.SIGKILL)
    job.wait(10)
    assert_no_orphans(job)


@pytest.mark.faults
@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGUSR1])
def test_preemption_of_the_script_and_exact_resume(tmp_path, images, number):
    loop = "dict(type='IterBasedTrainLoop', max_iters=400)"
    config = write_config(tmp_path / 'config.py', images, loop, workers=1, accumulation=3)
    whole, work = tmp_path / 'whole', tmp_path / 'work'
    assert run(config, whole, ranks=2) == [0, 0]
    job = launch(config, work)
    wait_for_training(job, work)
    job.send_signal(number)
    assert job.wait(60) == PREEMPTED
    assert max(curve(work)) < 400
    assert_no_orphans(job)
    assert launch(config, work, '--resume').wait(200) == 0
    assert_same_run(work, whole, ranks=2)


@pytest.mark.faults
def test_errors_of_the_user_are_one_line_and_code_2(tmp_path, images):
    config, work = write_config(tmp_path / 'config.py', images), tmp_path / 'work'
    job = launch(config, work, '--cfg-options', 'optim_wrapper.optimizer.lrr=1')
    assert job.wait(100) == USER_ERROR
    log = Path(f'{work}.log').read_text()
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


@pytest.mark.faults
def test_slurm_requeues_and_resumes(tmp_path, images):
    """With stand-ins for srun and scontrol."""
    for name, script in (('srun', SRUN), ('scontrol', SCONTROL)):
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    loop = "dict(type='IterBasedTrainLoop', max_iters=300)"
    config = write_config(tmp_path / 'config.py', images, loop, accumulation=3)
    whole, work = tmp_path / 'whole', tmp_path / 'work'
    assert run(config, whole, ranks=2) == [0, 0]
    slurm = {
        'PATH': f'{tmp_path}:{os.environ["PATH"]}', 'PYTHON': sys.executable,
        'PYTHONPATH': str(ROOT), 'SLURM_NTASKS': '2', 'SLURM_JOB_ID': '77',
        'SLURM_JOB_NODELIST': 'node', 'SLURM_NODELIST': 'node', 'SLURM_SUBMIT_DIR': str(ROOT),
        'MASTER_PORT': str(free_port()), 'TASKS': str(tmp_path / 'tasks'),
        'REQUEUED': str(tmp_path / 'requeued'),
    }  # fmt: skip
    script = [ROOT / 'tools' / 'slurm_train.sh', config, '--work-dir', work]
    codes = []
    for _ in range(2):
        with open(f'{work}.log', 'a') as log:
            job = subprocess.Popen(script, stdout=log, stderr=log, env={**os.environ, **slurm})
        if not codes:
            wait_for_training(job, work)
            for pid in (tmp_path / 'tasks').read_text().split():
                os.kill(int(pid), signal.SIGUSR1)
        codes.append(job.wait(200))
    assert codes == [PREEMPTED, 0]
    assert (tmp_path / 'requeued').read_text() == '77\n'
    assert_same_run(work, whole, ranks=2)
