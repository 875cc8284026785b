"""A run ends when its measure has not been best for a while, and stays ended."""

import pytest
from mmengine.registry import HOOKS

from tests.helpers.toy_run import EPOCHS, ITERATIONS, curve, log_file
from ttl_mm.checkpoint.sealed import newest_valid, read_seal
from ttl_mm.engine.hooks.early_stop_hook import EarlyStopHook, JudgeHook, since_best
from ttl_mm.engine.state.measured import remember
from ttl_mm.errors import UserError

MEASURE = 'judge/view_invariance'
VALUES = [1, 2, 5, 4, 3, 4]  # best after step 6, not best after 8, 10 and 12
MORE = """
custom_imports['imports'].append('tests.engine.hooks.test_early_stop_hook')
default_hooks['judge'] = dict(type='ToldJudge')
default_hooks['early_stop'] = dict(type='ttl_mm.EarlyStopHook', patience={})
"""


@HOOKS.register_module(force=True)
class ToldJudge(JudgeHook):
    """Measures every second step what the test tells it."""

    def before_train(self, runner) -> None:
        self.values = [*VALUES, *range(6, 20)]

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None) -> None:
        if runner.rank == 0 and (runner.iter + 1) % 2 == 0:
            remember(runner, MEASURE, runner.iter + 1, self.values[runner.iter // 2])


@pytest.mark.parametrize(
    ('loop', 'ranks', 'end', 'newest'),
    [
        (ITERATIONS, 1, 10, 'iter_10.pth'),
        (ITERATIONS, 2, 11, 'iter_11.pth'),  # the other rank learns it one step later
        (EPOCHS, 1, 10, 'epoch_2.pth'),
    ],
)
def test_it_ends_as_any_run_does(toy, tmp_path, loop, ranks, end, newest):
    by_epoch = loop == EPOCHS
    checkpoint = f"dict(type='ttl_mm.CheckpointHook', by_epoch={by_epoch}, interval=100)"
    settings = dict(loop=loop, checkpoint=checkpoint, more=MORE.format(2), ranks=ranks)
    assert toy(**settings) == [0] * ranks, log_file(tmp_path / 'work').read_text()[-2000:]
    work = tmp_path / 'work'
    assert max(curve(work)) == end
    path, _ = newest_valid(work)
    assert (path.name, read_seal(path).iteration) == (newest, end)
    assert f'{MEASURE} has not been best for 2 measurements' in log_file(work).read_text()
    assert toy(**settings) == [0] * ranks  # the same line again
    assert max(curve(work)) == end


def test_patience_is_counted_from_the_best_value():
    assert [since_best(VALUES[:n]) for n in range(7)] == [0, 0, 0, 0, 1, 2, 3]
    nan = float('nan')
    assert since_best([nan, 1.0, nan]) == 1
    assert since_best([2.0, 2.0]) == 1  # as good as before is not better


def test_what_cannot_be_meant_is_refused(toy, tmp_path):
    with pytest.raises(UserError, match='patience=0'):
        EarlyStopHook(0)
    more = "default_hooks['early_stop'] = dict(type='ttl_mm.EarlyStopHook', patience=1)"
    assert toy(more=more) == [2]
    assert f"'{MEASURE}' is measured by no hook" in log_file(tmp_path / 'work').read_text()
