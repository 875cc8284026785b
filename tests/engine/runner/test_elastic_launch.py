"""Machines that come and go, as two launchers on one host play them."""

import os
import signal
import subprocess
import time

import pytest
from mmengine.hooks import Hook
from mmengine.registry import HOOKS

from tests.helpers.scripts import assert_no_orphans, launch, processes
from tests.helpers.toy_run import LONG, free_port
from ttl_mm.engine.state.exit_codes import PREEMPTED, USER_ERROR

EVERY = "dict(type='ttl_mm.CheckpointHook', interval=20, by_epoch=False, max_keep_ckpts=1)"
SLOW = """
custom_imports['imports'].append('tests.engine.runner.test_elastic_launch')
custom_hooks = [dict(type='SlowHook')]
"""
GO_ON = 90  # seconds from the cut to the first steps without the other machine
pytestmark = [pytest.mark.faults, pytest.mark.parametrize('images', [44], indirect=True)]


@HOOKS.register_module(force=True)
class SlowHook(Hook):
    """A step takes a twentieth of a second, so that a test can follow."""

    def after_train_iter(self, *args, **kwargs) -> None:
        time.sleep(0.05)


def lines(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def wait_for_more(path, seconds, jobs, more=5):
    """Until a rank has made further steps."""
    deadline, before = time.monotonic() + seconds, lines(path)
    while lines(path) < before + more:
        assert all(job.poll() is None for job in jobs), [job.poll() for job in jobs]
        assert time.monotonic() < deadline, f'{path} does not grow within {seconds} s'
        time.sleep(0.2)


def test_a_machine_is_lost_and_comes_back(tmp_path, toy_config):
    config = toy_config(LONG, checkpoint=EVERY, more=SLOW, timeout=20)
    network = {'NNODES': '1:2', 'MASTER_ADDR': '127.0.0.1', 'PORT': str(free_port())}
    first = launch('dist_train.sh', config, '1', **network)
    time.sleep(3)  # whoever comes first keeps the rendezvous
    second = launch('dist_train.sh', config, '1', **network)
    curves = [tmp_path / 'work' / f'curve_{rank}.txt' for rank in (0, 1)]
    log = tmp_path / 'work.log'
    try:
        wait_for_more(curves[1], 200, [first, second])
        os.killpg(second.pid, signal.SIGKILL)
        for pid in processes(second.pid):
            os.kill(pid, signal.SIGKILL)
        second.wait()
        wait_for_more(curves[0], 150, [first], 30)
        assert '1 process for the work of 2 ranks' in log.read_text()
        second = launch('dist_train.sh', config, '1', **network)
        wait_for_more(curves[1], 200, [first, second])
        for job in (second, first):
            job.send_signal(signal.SIGTERM)
        assert first.wait(120) == PREEMPTED
        assert second.wait(120) == PREEMPTED
    finally:
        for job in (first, second):
            for pid in processes(job.pid):
                os.kill(pid, signal.SIGKILL)
    assert_no_orphans(first)


@pytest.fixture
def networks():
    """Two networks of their own on this host, joined by one cable; commands that enter them."""
    names = [f'ttl_{os.getpid()}_{i}' for i in (1, 2)]

    def ip(*words):
        return subprocess.run(['ip', *words], check=True, capture_output=True, text=True)

    try:
        for name in names:
            ip('netns', 'add', name)
        ip('link', 'add', 'cable1', 'netns', names[0], 'type', 'veth',
           'peer', 'name', 'cable2', 'netns', names[1])  # fmt: skip
        for i, name in enumerate(names, 1):
            ip('-n', name, 'address', 'add', f'10.77.0.{i}/24', 'dev', f'cable{i}')
            for device in ('lo', f'cable{i}'):
                ip('-n', name, 'link', 'set', device, 'up')
        yield [['ip', 'netns', 'exec', name] for name in names]
    except (OSError, subprocess.CalledProcessError) as error:
        reason = getattr(error, 'stderr', None) or error
        pytest.skip(f'networks of their own are not permitted here: {reason}')
    finally:
        for name in names:
            subprocess.run(['ip', 'netns', 'del', name], capture_output=True, check=False)


def test_a_machine_is_cut_off_and_comes_back(tmp_path, toy_config, networks):
    """Its link goes down: no connection breaks, it only falls silent."""
    config = toy_config(LONG, checkpoint=EVERY, more=SLOW, timeout=60)
    port, curves = str(free_port()), [tmp_path / 'work' / f'curve_{rank}.txt' for rank in (0, 1)]

    def start(i):
        environment = {
            'NNODES': '1:2', 'MASTER_ADDR': '10.77.0.1', 'PORT': port, 'TTL_ADDR': f'10.77.0.{i}',
            'GLOO_SOCKET_IFNAME': f'cable{i}',
        }  # fmt: skip
        return launch('dist_train.sh', config, '1', before=networks[i - 1], **environment)

    def link(state):
        subprocess.run([*networks[1], 'ip', 'link', 'set', 'cable2', state], check=True)

    jobs = [start(1)]
    try:
        time.sleep(3)  # the first one keeps the rendezvous
        jobs.append(start(2))
        wait_for_more(curves[1], 200, jobs)
        link('down')
        cut = time.monotonic()
        text = (tmp_path / 'work.log').read_text
        while '1 process for the work of 2 ranks' not in text():
            assert jobs[0].poll() is None
            assert time.monotonic() - cut < GO_ON, text()[-2000:]
            time.sleep(0.5)
        wait_for_more(curves[0], GO_ON - (time.monotonic() - cut), jobs[:1])
        print(f'the other machine went on after {time.monotonic() - cut:.0f} s')
        for pid in processes(jobs[1].pid):
            os.kill(pid, signal.SIGKILL)
        link('up')
        jobs.append(start(2))
        wait_for_more(curves[1], 200, [jobs[0], jobs[2]])
    finally:
        for job in jobs:
            for pid in processes(job.pid):
                os.kill(pid, signal.SIGKILL)
            job.wait()


def test_an_error_of_the_user_is_not_tried_twenty_times(tmp_path, toy_config):
    config = toy_config(LONG)
    config.write_text(config.read_text().replace('lr=0.05', 'rl=0.05'))
    network = {'NNODES': '1:2', 'PORT': str(free_port()), 'TTL_MAX_RESTARTS': '3'}
    job = launch('dist_train.sh', config, '1', **network)
    assert job.wait(300) == USER_ERROR
    assert (tmp_path / 'work.log').read_text().count("unexpected keyword argument 'rl'") <= 2
