"""kill -9 at the worst moments: nothing but the steps since the last save is lost."""

import io
import os
import random
import signal
import time

import pytest
import torch

from tests.helpers.toy_run import (
    assert_same_run,
    curve,
    make_images,
    run,
    start,
    wait,
    write_config,
)
from ttl_mm.checkpoint.sealed import newest_valid, read_seal
from ttl_mm.engine.hooks import checkpoint_hook

EVERY_2 = "dict(type='ttl_mm.CheckpointHook', interval=2, by_epoch=False, max_keep_ckpts=1)"
EVERY_STEP = "dict(type='ttl_mm.CheckpointHook', interval=1, by_epoch=False, max_keep_ckpts=1)"
DIE = signal.SIGKILL


def die_at(module, name: str, call: int, after: bool = False, counts=lambda *args: True):
    """A function that makes the process kill itself at the n-th call of ``module.name``.

    Calls for whose arguments ``counts`` is false are not counted.
    """

    def prepare() -> None:
        original, left = getattr(module, name), [call]

        def dying(*args, **kwargs):
            counted = counts(*args)
            left[0] -= counted
            if counted and left[0] == 0 and not after:
                os.kill(os.getpid(), DIE)
            result = original(*args, **kwargs)
            if counted and left[0] == 0:
                os.kill(os.getpid(), DIE)
            return result

        setattr(module, name, dying)

    return prepare


def die_in_the_middle_of_writing() -> None:
    """Let half of the third checkpoint reach the disk."""
    original, calls = torch.save, [0]

    def saving(state, file) -> None:
        calls[0] += 1
        if calls[0] < 3:
            return original(state, file)
        content = io.BytesIO()
        original(state, content)
        file.write(content.getvalue()[: len(content.getvalue()) // 2])
        file.flush()
        os.kill(os.getpid(), DIE)

    torch.save = saving


def of_a_checkpoint(source, target) -> bool:
    """The cached scan of the folder is put in its place by a replace too."""
    return str(target).endswith('.pth')


# a save calls fsync for the file and for the folder, replace once, unlink for the temporary name
# and for the old checkpoint; the third save is the one hit, at iteration 6
PHASES = {
    'while writing': die_in_the_middle_of_writing,
    'before the sync': die_at(os, 'fsync', 5),
    'after the sync': die_at(os, 'fsync', 5, after=True),
    'before the replace': die_at(os, 'replace', 3, counts=of_a_checkpoint),
    'after the replace': die_at(os, 'replace', 3, after=True, counts=of_a_checkpoint),
    'before the folder is synced': die_at(os, 'fsync', 6),
    'before the old one is deleted': die_at(checkpoint_hook, 'sealed_files', 3),
}


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    """Images, and a run that nobody killed."""
    folder = tmp_path_factory.mktemp('whole')
    images = make_images(folder / 'images')
    config = write_config(folder / 'config.py', images, checkpoint=EVERY_2)
    assert run(config, folder / 'work') == [0]
    return images, folder / 'work'


@pytest.mark.parametrize('phase', PHASES)
def test_kill_at_each_phase_of_a_save(tmp_path, whole, phase):
    images, reference = whole
    config = write_config(tmp_path / 'config.py', images, checkpoint=EVERY_2)
    work = tmp_path / 'work'
    assert run(config, work, prepare=PHASES[phase]) == [-DIE]
    reached = max(curve(work))
    assert reached == 6
    path, _ = newest_valid(work)
    assert reached - read_seal(path).iteration <= 2
    assert run(config, work) == [0]
    assert_same_run(work, reference)
    assert len(list(work.glob('*.pth'))) == 1  # and nothing left behind
    assert not list(work.glob('*.partial'))


@pytest.mark.faults
@pytest.mark.parametrize('workers', [0, 2])
def test_fifty_kills_at_random_times(tmp_path, workers):
    """Twenty-five with workers, twenty-five without; it saves after every step and keeps one."""
    rng = random.Random(workers)
    images = make_images(tmp_path / 'images')
    loop = "dict(type='IterBasedTrainLoop', max_iters=600)"
    rarely = EVERY_STEP.replace('interval=1', 'interval=600')
    reference = write_config(tmp_path / 'whole.py', images, loop, workers, 3, rarely)
    config = write_config(tmp_path / 'config.py', images, loop, workers, 3, EVERY_STEP)
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
    print(f'{kills} kills, {in_a_save} of them in a save, {number + 1} runs')
    assert in_a_save >= 3
