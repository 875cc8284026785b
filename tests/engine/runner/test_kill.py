"""kill -9 at the worst moments: nothing but the steps since the last save is lost."""

import io
import os
import random
import signal
import time
from itertools import count

import pytest
import torch

from tests.helpers.toy_run import assert_same_run, curve, start, wait, write_config
from ttl_mm.checkpoint.sealed import newest_valid, read_seal
from ttl_mm.engine.hooks import checkpoint_hook

EVERY = "dict(type='ttl_mm.CheckpointHook', interval={}, by_epoch=False, max_keep_ckpts=1)"
DIE = signal.SIGKILL


def die_at(module, name: str, call: int, after: bool = False, suffix: str = ''):
    """Let a process kill itself at the n-th call of ``module.name`` on a path with ``suffix``."""

    def prepare() -> None:
        original, calls = getattr(module, name), count(1)

        def dying(*args, **kwargs):
            last = str(args[-1]).endswith(suffix) and next(calls) == call
            if not last or after:
                result = original(*args, **kwargs)
            if last:
                os.kill(os.getpid(), DIE)
            return result

        setattr(module, name, dying)

    return prepare


def die_in_the_middle_of_writing() -> None:
    """Let half of the third checkpoint reach the disk."""
    original, calls = torch.save, count(1)

    def saving(state, file) -> None:
        if next(calls) < 3:
            return original(state, file)
        content = io.BytesIO()
        original(state, content)
        file.write(content.getvalue()[: content.tell() // 2])
        file.flush()
        os.kill(os.getpid(), DIE)

    torch.save = saving


# a save calls fsync for the file and for the folder, replace once, unlink for the temporary name
# and for the old checkpoint; the third save is the one hit, at iteration 6; the cached scan of the
# folder is put in its place by a replace too
PHASES = {
    'while writing': die_in_the_middle_of_writing,
    'before the sync': die_at(os, 'fsync', 5),
    'after the sync': die_at(os, 'fsync', 5, after=True),
    'before the replace': die_at(os, 'replace', 3, suffix='.pth'),
    'after the replace': die_at(os, 'replace', 3, after=True, suffix='.pth'),
    'before the folder is synced': die_at(os, 'fsync', 6),
    'before the old one is deleted': die_at(checkpoint_hook, 'sealed_files', 3),
}


def test_kill_at_each_phase_of_a_save(tmp_path, toy):
    assert toy('whole', checkpoint=EVERY.format(2)) == [0]
    for phase, die in PHASES.items():
        work = tmp_path / phase
        assert toy(phase, prepare=die, checkpoint=EVERY.format(2)) == [-DIE], phase
        assert max(curve(work)) == 6
        path, _ = newest_valid(work)
        assert read_seal(path).iteration >= 4
        assert toy(phase, checkpoint=EVERY.format(2)) == [0]
        assert_same_run(work, tmp_path / 'whole')
        assert len(list(work.glob('*.pth'))) == 1  # and nothing left behind
        assert not list(work.glob('*.partial'))


@pytest.mark.faults
@pytest.mark.parametrize('workers', [0, 2])
def test_fifty_kills_at_random_times(tmp_path, images, workers):
    """Twenty-five with workers, twenty-five without; it saves after every step and keeps one."""
    rng = random.Random(workers)
    settings = images, "dict(type='IterBasedTrainLoop', max_iters=600)", workers, 3
    reference = write_config(tmp_path / 'whole.py', *settings, EVERY.format(600))
    config = write_config(tmp_path / 'config.py', *settings, EVERY.format(1))
    assert wait(start(reference, tmp_path / 'whole'), 200) == [0]
    kills, in_a_save, number = 0, 0, 0
    while kills < 25:
        work = tmp_path / f'work_{number}'
        pids = start(config, work)
        time.sleep(rng.uniform(0.5, 2.0))
        os.kill(pids[0], DIE)
        code = wait(pids)
        if code == [0]:  # it had ended already: take another one
            assert_same_run(work, tmp_path / 'whole')
            number += 1
            continue
        assert code == [-DIE]
        kills += 1
        in_a_save += bool(list(work.glob('*.partial')))
        if (work / 'curve_0.txt').exists() and (reached := max(curve(work), default=0)) > 1:
            path, problems = newest_valid(work)
            assert not problems
            assert reached - read_seal(path).iteration <= 1
    assert wait(start(config, work), 200) == [0]
    assert_same_run(work, tmp_path / 'whole')
    assert len(list(work.glob('*.pth'))) == 1
    assert in_a_save >= 3, f'of {kills} kills'
