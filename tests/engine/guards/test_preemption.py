"""Ways in which a run is asked to end, or loses its data: it saves, and says how to go on."""

import multiprocessing
import os
import signal
import time
from types import SimpleNamespace

import pytest
from mmengine.hooks import Hook
from mmengine.registry import HOOKS

from tests.helpers.toy_run import LONG, STOP, assert_same_run, log_file, start, wait, wait_for_steps
from ttl_mm.checkpoint.sealed import sealed_files
from ttl_mm.engine import CheckpointHook, PreemptionHook
from ttl_mm.engine.guards.preemption import CONTINUES, Interrupt, continuing_command
from ttl_mm.engine.runner.processes import continuing_line
from ttl_mm.engine.state.exit_codes import Preempted

HURT = "custom_hooks = [dict(type='HurtWorkersHook', number={}, at={}, then={})]\n"


@HOOKS.register_module(force=True)
class HurtWorkersHook(Hook):
    """Send a signal to the first process that loads data, and perhaps one to this process."""

    def __init__(self, number: int, at: int, then: int | None = None) -> None:
        self.number, self.at, self.then = number, at, then

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.iter + 1 == self.at:
            os.kill(multiprocessing.active_children()[0].pid, self.number)
            if self.then:  # when the loop already waits
                os.system(f'(sleep 0.5; kill -{self.then} {os.getpid()}) &')


def last_line(work_dir):
    return log_file(work_dir).read_text().splitlines()[-1]


def saved(work_dir):
    return sealed_files(work_dir)[0][1].iteration


@pytest.mark.parametrize(
    ('number', 'code', 'name'), [(signal.SIGINT, 130, 'Ctrl-C'), (signal.SIGHUP, 75, 'SIGHUP')]
)
def test_ctrl_c_and_a_closed_terminal_save(tmp_path, toy, number, code, name):
    assert toy('whole') == [0]
    assert toy(workers=2, more=STOP.format(f'7, number={int(number)}')) == [code]
    line = last_line(tmp_path / 'work')
    assert line.startswith(f'ended by {name} after iteration 7, which is saved in ')
    assert '. To continue: ' in line
    assert toy() == [0]
    assert_same_run(tmp_path / 'work', tmp_path / 'whole')


def test_a_run_that_saves_nothing_ends_as_quickly_and_says_so(tmp_path, toy):
    assert toy(more=STOP.format('3') + "default_hooks['checkpoint'] = None\n") == [75]
    assert 'after iteration 3, which is lost: no checkpoint hook saves it' in last_line(
        tmp_path / 'work'
    )


def test_ctrl_c_of_a_terminal_reaches_workers_too_and_at_any_moment(tmp_path, toy_config):
    """The whole process group gets it, while the run starts and while it trains."""
    for i in range(4):
        work = tmp_path / f'work_{i}'
        pids = start(toy_config(LONG, workers=2), work, prepare=os.setsid)
        wait_for_steps(work, ranks=1) if i % 2 else _wait_for(work / 'run.lock')
        os.killpg(pids[0], signal.SIGINT)
        assert wait(pids, 30) == [130], log_file(work).read_text()
        assert 'Traceback' not in log_file(work).read_text()


def _wait_for(path):
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_ctrl_c_that_python_dropped_ends_the_run_before_its_first_step(monkeypatch):
    interrupt = Interrupt()
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    monkeypatch.setattr(signal, 'getsignal', {signal.SIGINT: interrupt}.get)
    with pytest.raises(KeyboardInterrupt):
        PreemptionHook().before_train(None)


def test_a_killed_worker(tmp_path, toy):
    assert toy('whole', workers=1) == [0]
    assert toy(workers=1, more=HURT.format(9, 7, None)) == [75]
    line = last_line(tmp_path / 'work')
    assert line.startswith('a process that loads data has died')
    assert f'iteration {saved(tmp_path / "work")} is saved. To continue: ' in line
    assert toy(workers=1) == [0]
    assert_same_run(tmp_path / 'work', tmp_path / 'whole')


def test_a_stopped_worker_does_not_keep_a_run_from_ending(tmp_path, toy):
    hurt = HURT.format(int(signal.SIGSTOP), 7, int(signal.SIGTERM))
    assert toy(workers=1, more=hurt) == [75]
    assert 'ended by SIGTERM after iteration' in last_line(tmp_path / 'work')
    assert saved(tmp_path / 'work') >= 7


def test_the_line_that_continues(monkeypatch):
    assert continuing_command(['/x/bin/ttl', 'train', 'my photos']) == "ttl train 'my photos'"
    assert continuing_command(['tools/train.py', 'a.py']) == 'python tools/train.py a.py --resume'
    again = ['tools/train.py', 'a.py', '--resume']
    assert continuing_command(again) == 'python tools/train.py a.py --resume'
    assert continuing_command(['x.py']) == 'the same command with --resume'
    module = ['/x/processes.py', 'a.py', 'run']
    assert continuing_command(module) == 'python -m ttl_mm.engine.runner.processes a.py run'
    assert continuing_command(['/x/ttl_mm/__main__.py', 'train']) == 'python -m ttl_mm train'
    monkeypatch.setenv(CONTINUES, continuing_line(['/x/bin/ttl', 'train', 'my photos']))
    assert continuing_command(['/x/processes.py', 'config.py']) == "ttl train 'my photos'"
    assert continuing_line(['x.py']) == 'the same call again'


class Checkpoints(CheckpointHook):
    """Notes what it is asked to save."""

    def __init__(self):
        self.saved, self.saved_at = [], None

    def save(self, runner, name, epoch, iteration):
        self.saved.append((name, epoch, iteration))


@pytest.fixture
def runner():
    return SimpleNamespace(
        iter=6,
        epoch=1,
        hooks=[Checkpoints()],
        work_dir='runs/a',
        train_loop=SimpleNamespace(waiting=False),
    )


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGUSR1])
def test_a_signal_saves_after_the_step_and_the_handlers_are_given_back(runner, number):
    before, hook = signal.getsignal(number), PreemptionHook()
    hook.before_train(runner)
    hook.after_train_iter(runner, 0)  # nothing was asked
    os.kill(os.getpid(), number)
    with pytest.raises(Preempted, match=f'ended by {number.name} after iteration 7.*in runs/a'):
        hook.after_train_iter(runner, 0)
    assert runner.hooks[0].saved == [('iter_7.pth', 1, 7)]
    hook.after_train(runner)
    assert signal.getsignal(number) is before


def test_what_was_saved_in_this_step_is_not_saved_twice(runner):
    hook, runner.hooks[0].saved_at = PreemptionHook(), 7
    hook.before_train(runner)
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Preempted):
        hook.after_train_iter(runner, 0)
    hook.after_train(runner)
    assert runner.hooks[0].saved == []
