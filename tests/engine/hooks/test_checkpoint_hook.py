"""What is kept: the last N and the best; and validation that a kill came in between."""

import os
import signal
from functools import partial

import numpy as np
import pytest
from mmengine.evaluator import BaseMetric
from mmengine.hooks import Hook
from mmengine.registry import HOOKS, METRICS

from tests.helpers.toy_run import assert_same_run, curve, log_file, run, write_config
from ttl_mm.checkpoint import sealed
from ttl_mm.checkpoint.sealed import read_seal, read_sealed, sealed_files
from ttl_mm.engine.hooks.checkpoint_hook import CheckpointHook
from ttl_mm.engine.state.exit_codes import USER_ERROR
from ttl_mm.errors import UserError

VALIDATE = """
val_cfg = dict()
val_dataloader = dict(
    batch_size=4, num_workers=0, collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=False),
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


@pytest.fixture
def train(tmp_path, images):
    """Train with a checkpoint hook of these settings until the exit code; the work dir."""

    def run_once(
        settings, kind='ttl_mm.CheckpointHook', more='', work='work', code=0, prepare=None
    ):
        checkpoint = f"dict(type='{kind}', {settings})"
        config = write_config(tmp_path / 'config.py', images, checkpoint=checkpoint, more=more)
        assert run(config, tmp_path / work, prepare=prepare) == [code]
        return tmp_path / work

    return run_once


def names(work):
    return sorted(path.name for path in work.glob('*.pth'))


def test_keeps_the_last_and_the_best(train):
    work = train("interval=1, max_keep_ckpts=2, save_best='loss'")
    assert names(work) == ['best_loss.pth', 'epoch_3.pth', 'epoch_4.pth']
    losses = {i: float.fromhex(loss) for i, loss in curve(work).items()}
    assert read_seal(work / 'best_loss.pth').iteration == min(losses, key=losses.get)


def test_the_best_epoch_by_a_metric_that_is_logged_after_it_resumes_there(train):
    more = "custom_hooks = [dict(type='EpochMetricHook')]"
    work = train("interval=1, save_best='score'", more=more)
    best, third = (read_sealed(work / f'{name}.pth')['meta'] for name in ('best_score', 'epoch_3'))
    assert (best['epoch'], best['iter']) == (3, 15)
    assert {**best, 'time': 0} == {**third, 'time': 0}


def test_a_best_that_never_comes_is_reported_once_with_the_nearest_name(train):
    work = train("interval=1, save_best='los'")
    assert names(work) == [f'epoch_{i}.pth' for i in (1, 2, 3, 4)]
    warnings = [line for line in log_file(work).read_text().splitlines() if 'save_best' in line]
    assert sum("'los' has no value so far" in line for line in warnings) == 1
    assert any("Did you mean 'loss'?" in line for line in warnings)
    assert names(train("save_best='auto'", work='none', code=USER_ERROR)) == []


def test_last_is_saved_whatever_the_interval(train):
    assert names(train('interval=3')) == ['epoch_3.pth', 'epoch_4.pth']


def test_a_stock_hook_keeps_all_as_mmengine_does(train):
    work = train('interval=1', kind='CheckpointHook')
    assert names(work) == [f'epoch_{i}.pth' for i in (1, 2, 3, 4)]
    assert read_seal(work / 'epoch_2.pth').iteration == 10


def test_validation_leaves_no_trace_in_the_training_and_a_killed_one_is_made_up_for(train, images):
    plain = train('interval=1', work='plain')
    settings = "interval=1, max_keep_ckpts=1, save_best='score', rule='less'"
    validated = partial(train, settings, more=VALIDATE.format(images=str(images)))
    whole = validated(work='whole')
    assert_same_run(whole, plain)
    assert names(whole) == ['best_score.pth', 'epoch_4.pth']

    in_the_second = partial(setattr, NoisyMetric, 'kill_at', 2)
    killed = validated(work='killed', code=-signal.SIGKILL, prepare=in_the_second)
    assert read_seal(sealed_files(killed)[0][0]).iteration == 10
    validated(work='killed')
    assert_same_run(killed, whole)
    best = [read_sealed(work / 'best_score.pth') for work in (whole, killed)]
    assert best[0]['meta']['iter'] == best[1]['meta']['iter']
    hooks = [state['ttl_mm']['hooks']['CheckpointHook']['best'] for state in best]
    assert hooks[0] == hooks[1]


@pytest.mark.parametrize('images', [44], indirect=True)
def test_ranks_whose_losses_differ_save_the_same_best(tmp_path, images):
    checkpoint = "dict(type='ttl_mm.CheckpointHook', interval=1, save_best='loss')"
    config = write_config(tmp_path / 'config.py', images, checkpoint=checkpoint, timeout=10)
    work = tmp_path / 'work'
    assert run(config, work, ranks=2) == [0, 0]
    losses = {i: float.fromhex(loss) for i, loss in curve(work).items()}  # of rank 0
    assert read_seal(work / 'best_loss.pth').iteration == min(losses, key=losses.get)
    assert losses != {i: float.fromhex(loss) for i, loss in curve(work, rank=1).items()}


def test_the_disk_fills_up_during_a_run(train):
    """The old checkpoint stays, and the reason is one sentence."""

    def fill_up() -> None:
        write, sizes = sealed._HashingFile.write, []

        def writing(self, data):
            sizes.append(len(data))
            if sum(sizes) > 100_000:
                raise OSError(28, 'No space left on device')
            return write(self, data)

        sealed._HashingFile.write = writing

    work = train('interval=1, max_keep_ckpts=1', code=USER_ERROR, prepare=fill_up)
    assert len(names(work)) == 1
    log = log_file(work).read_text()
    assert 'No space left on device' in log
    assert 'Traceback' not in log
    train('interval=1, max_keep_ckpts=1')


def test_impossible_settings_are_refused():
    for name, value in {'max_keep_ckpts': 0, 'rule': 'larger'}.items():
        with pytest.raises(UserError, match=f'{name}={value!r}'):
            CheckpointHook(**{name: value})
