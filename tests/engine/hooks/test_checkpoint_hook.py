"""What is kept: the last N and the best; and validation that a kill came in between."""

import os
import signal
from functools import partial

import numpy as np
import pytest
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.registry import HOOKS, METRICS

from tests.helpers.toy_run import assert_same_run, curve, run, write_config
from ttl_mm.checkpoint import sealed
from ttl_mm.checkpoint.sealed import read_seal, read_sealed, sealed_files
from ttl_mm.engine.hooks.checkpoint_hook import CheckpointHook
from ttl_mm.engine.state.exit_codes import USER_ERROR
from ttl_mm.errors import UserError

HOOK = "dict(type='ttl_mm.CheckpointHook', interval=1, {more})"
VALIDATE = """
val_cfg = dict()
val_dataloader = dict(
    batch_size=4, num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=False),
    collate_fn=dict(type='default_collate'),
    dataset=dict(
        type='ttl_mm.ImageFolder', data_root={images!r},
        pipeline=[dict(type='LoadImageFromFile'), dict(type='PackInputs')],
    ),
)
val_evaluator = dict(type='NoisyMetric')
"""


@METRICS.register_module(force=True)
class NoisyMetric(BaseMetric):
    """A score of the weights that draws random numbers on the way, and can be killed."""

    kill_at = 0

    def process(self, data_batch, data_samples) -> None:
        np.random.rand()
        self.results += data_samples

    def compute_metrics(self, results) -> dict:
        NoisyMetric.kill_at -= 1
        if NoisyMetric.kill_at == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return {'score': float(np.mean(results))}


@HOOKS.register_module(force=True)
class EpochMetricHook(Hook):
    """Logs a score at the end of every epoch, the best one after the third."""

    def after_train_epoch(self, runner) -> None:
        runner.message_hub.update_scalar('train/score', [1, 2, 4, 3][runner.epoch])


def names(work):
    return sorted(path.name for path in work.glob('*.pth'))


def test_keeps_the_last_and_the_best(tmp_path, images):
    checkpoint = HOOK.format(more="max_keep_ckpts=2, save_best='loss'")
    config = write_config(tmp_path / 'config.py', images, checkpoint=checkpoint)
    work = tmp_path / 'work'
    assert run(config, work) == [0]
    assert names(work) == ['best_loss.pth', 'epoch_3.pth', 'epoch_4.pth']
    losses = {i: float.fromhex(loss) for i, loss in curve(work).items()}
    assert read_seal(work / 'best_loss.pth').iteration == min(losses, key=losses.get)


def test_the_best_epoch_by_a_metric_that_is_logged_after_it_resumes_there(tmp_path, images):
    checkpoint = HOOK.format(more="save_best='score'")
    more = "\ncustom_hooks = [dict(type='EpochMetricHook')]\n"
    config = write_config(tmp_path / 'config.py', images, checkpoint=checkpoint, more=more)
    assert run(config, tmp_path / 'work') == [0]
    best, third = (read_sealed(tmp_path / 'work' / f'{n}.pth') for n in ('best_score', 'epoch_3'))
    assert (best['meta']['epoch'], best['meta']['iter']) == (3, 15)
    assert {**best['meta'], 'time': 0} == {**third['meta'], 'time': 0}


def test_last_is_saved_whatever_the_interval(tmp_path, images):
    checkpoint = "dict(type='ttl_mm.CheckpointHook', interval=3)"
    config = write_config(tmp_path / 'config.py', images, checkpoint=checkpoint)
    assert run(config, tmp_path / 'work') == [0]
    assert names(tmp_path / 'work') == ['epoch_3.pth', 'epoch_4.pth']


def test_validation_leaves_no_trace_in_the_training(tmp_path, images):
    checkpoint = HOOK.format(more="max_keep_ckpts=1, save_best='score'")
    plain = write_config(tmp_path / 'plain.py', images)
    validated = write_config(
        tmp_path / 'config.py', images, checkpoint=checkpoint,
        more=VALIDATE.format(images=str(images)),
    )  # fmt: skip
    assert run(plain, tmp_path / 'plain') == [0]
    assert run(validated, tmp_path / 'work') == [0]
    assert_same_run(tmp_path / 'work', tmp_path / 'plain')
    assert names(tmp_path / 'work') == ['best_score.pth', 'epoch_4.pth']


def test_a_validation_that_was_killed_is_made_up_for(tmp_path, images):
    checkpoint = HOOK.format(more="max_keep_ckpts=1, save_best='score', rule='less'")
    config = write_config(
        tmp_path / 'config.py', images, checkpoint=checkpoint,
        more=VALIDATE.format(images=str(images)),
    )  # fmt: skip
    assert run(config, tmp_path / 'whole') == [0]

    in_the_second = partial(setattr, NoisyMetric, 'kill_at', 2)
    assert run(config, tmp_path / 'work', prepare=in_the_second) == [-signal.SIGKILL]
    assert read_seal(sealed_files(tmp_path / 'work')[0][0]).iteration == 10
    assert run(config, tmp_path / 'work') == [0]
    assert_same_run(tmp_path / 'work', tmp_path / 'whole')
    best = [read_sealed(tmp_path / run_ / 'best_score.pth') for run_ in ('whole', 'work')]
    assert best[0]['meta']['iter'] == best[1]['meta']['iter']
    hooks = [state['ttl_mm']['hooks']['CheckpointHook']['best'] for state in best]
    assert hooks[0] == hooks[1]


def test_the_disk_fills_up_during_a_run(tmp_path, images):
    """The old checkpoint stays, and the reason is one sentence."""
    config = write_config(tmp_path / 'config.py', images)

    def fill_up() -> None:
        write, calls = sealed._HashingFile.write, []

        def writing(self, data):
            calls.append(len(data))
            if sum(calls) > 100_000:
                raise OSError(28, 'No space left on device')
            return write(self, data)

        sealed._HashingFile.write = writing

    assert run(config, tmp_path / 'work', prepare=fill_up) == [USER_ERROR]
    assert len(names(tmp_path / 'work')) == 1
    log = (tmp_path / 'work_0.log').read_text()
    assert 'No space left on device' in log
    assert 'Traceback' not in log
    assert run(config, tmp_path / 'work') == [0]


def test_impossible_settings_are_refused():
    for name, value in {'max_keep_ckpts': 0, 'rule': 'larger'}.items():
        with pytest.raises(UserError, match=f'{name}={value!r}'):
            CheckpointHook(**{name: value})


def test_a_stock_hook_keeps_all_as_mmengine_does(tmp_path, images):
    checkpoint = "dict(type='CheckpointHook', interval=1)"
    config = write_config(tmp_path / 'config.py', images, checkpoint=checkpoint)
    assert run(config, tmp_path / 'work') == [0]
    assert names(tmp_path / 'work') == [f'epoch_{i}.pth' for i in (1, 2, 3, 4)]
    assert read_seal(tmp_path / 'work' / 'epoch_2.pth').iteration == 10
