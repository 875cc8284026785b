"""Runner beside mmengine's own tests of it (tools/mmengine_runner_tests.py)."""

import multiprocessing
from unittest.mock import Mock

import pytest
import torch
from mmengine.evaluator import BaseMetric
from mmengine.logging import MessageHub
from mmengine.registry import DATASETS, METRICS
from mmengine.runner.priority import get_priority

from tests.helpers.toy_run import EPOCHS, ITERATIONS, STOP, log_file
from ttl_mm.checkpoint.sealed import read_sealed, write_checkpoint
from ttl_mm.config import read_config
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.engine.runner.runner import Runner
from ttl_mm.engine.runner.substitutes import DEFAULT_HOOKS
from ttl_mm.engine.state.exit_codes import PREEMPTED
from ttl_mm.errors import UserError

EVALUATED = """
val_dataloader = dict(
    batch_size=2, collate_fn=dict(type='default_collate'), dataset=dict(type='four_images'),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
val_cfg = dict()
val_evaluator = dict(type='CountImages')
test_dataloader, test_cfg, test_evaluator = val_dataloader, val_cfg, val_evaluator
"""


@DATASETS.register_module(force=True)
def four_images() -> list[dict]:
    return [{'inputs': torch.full((3, 8, 8), index)} for index in range(4)]


@METRICS.register_module(force=True)
class CountImages(BaseMetric):
    def process(self, data_batch, data_samples) -> None:
        self.results.append(len(data_batch['inputs']))

    def compute_metrics(self, results: list) -> dict:
        return {'images': sum(results)}


@pytest.fixture
def make_runner(tmp_path, toy_config):
    def make(more='', **options) -> Runner:
        cfg = read_config(toy_config(more=more), options)
        cfg.work_dir = str(tmp_path / 'work')
        return Runner.from_cfg(cfg)

    return make


@pytest.mark.parametrize('loop', [EPOCHS, ITERATIONS])
def test_no_worker_outlives_the_training(make_runner, loop):
    workers = {'num_workers': 1, 'persistent_workers': True}
    options = {f'+train_dataloader.{key}': value for key, value in workers.items()}
    runner = make_runner(f'train_cfg = {loop}', **options)
    runner.train()
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize('resume', [False, True])
def test_val_and_test_build_no_training_loop(tmp_path, toy, make_runner, monkeypatch, resume):
    assert not resume or toy() == [0]
    scan = Mock(side_effect=AssertionError('the training data were read'))
    monkeypatch.setattr(ImageFolder, '__init__', scan)
    for method in ('val', 'test'):
        runner = make_runner(EVALUATED, **{'+resume': resume})
        assert getattr(runner, method)() == {'images': 4}
        assert isinstance(runner._train_loop, dict)
        assert (runner.epoch, runner.iter) == (0, 0)
        if resume:
            saved = read_sealed(tmp_path / 'work' / 'epoch_4.pth')['state_dict']
            assert runner.model.neck.weight.equal(saved['neck.weight'])


def test_a_validation_that_the_end_cut_off_is_made_up_for(tmp_path, toy):
    """The signal comes in the last iteration: its checkpoint is older than its validation."""
    hook = "dict(type='ttl_mm.CheckpointHook', save_best='images')"
    for stop, code, best in ((STOP.format(20), PREEMPTED, False), ('', 0, True)):
        assert toy(loop=ITERATIONS, checkpoint=hook, more=EVALUATED + stop) == [code]
        assert (tmp_path / 'work' / 'best_images.pth').exists() == best


def test_resume_reads_the_file_it_is_given(tmp_path, toy, make_runner, monkeypatch):
    """The config alone would choose the newest."""
    assert toy(checkpoint="dict(type='ttl_mm.CheckpointHook', interval=1)") == [0]
    resumed = Mock()
    monkeypatch.setattr('ttl_mm.engine.runner.runner.continue_run', resumed)
    make_runner(**{'+resume': True}).resume(str(tmp_path / 'work' / 'epoch_2.pth'))
    meta = resumed.call_args.args[1]['meta']
    assert (meta['epoch'], meta['iter']) == (2, 10)


def test_type_and_by_epoch_together_are_refused(make_runner):
    runner = make_runner(**{'+train_cfg.by_epoch': True})
    with pytest.raises(UserError, match="type='EpochBasedTrainLoop' and by_epoch=True"):
        runner.train()


def test_hooks_run_in_the_order_listed_and_the_log_says_what_was_put_in(make_runner, monkeypatch):
    runner, lines = make_runner(), []
    kinds = [type(hook).__name__ for hook in runner.hooks]
    listed = [hook['type'].removeprefix('ttl_mm.') for hook in DEFAULT_HOOKS.values()]
    assert [kind for kind in kinds if kind != 'CurveHook'] == listed
    priorities = [get_priority(hook.priority) for hook in runner.hooks]
    assert priorities == sorted(priorities)
    monkeypatch.setattr(runner.logger, 'info', lines.append)
    runner.build_train_loop(runner._train_loop)
    (line,) = (line for line in lines if 'In place of' in line)
    for word in ('EpochBasedTrainLoop', 'DefaultSampler', 'ttl_mm.EpochLoop', 'preflight, finite'):
        assert word in line


def test_a_checkpoint_of_the_first_layout_resumes_and_todays_hub_is_mmengines(tmp_path, toy):
    """At first the log lay in message_hub, and the settings were spelled with spaces."""
    assert toy(cfg_options={'train_cfg.max_epochs': 2}) == [0]
    state = read_sealed(tmp_path / 'work' / 'epoch_2.pth')
    hub = MessageHub.get_instance('stranger')
    hub.load_state_dict(state['message_hub'])
    assert (hub.get_info('epoch'), hub.get_info('iter')) == (1, 9)
    own, info = state['ttl_mm'], state['message_hub']['runtime_info']
    state['message_hub'] = {'log_scalars': own.pop('log'), 'runtime_info': info}
    names = ('world size', 'batch size per rank', 'images', 'iterations per epoch')
    old = {name: own['settings'][name.replace(' ', '_')] for name in names}
    own['settings'] = {**old, 'accumulative_counts': 1, 'seed': own['settings']['seed']}
    write_checkpoint(tmp_path / 'work' / 'epoch_2.pth', state, 10, 2)
    assert toy() == [0]
    assert 'Not the same run' not in log_file(tmp_path / 'work').read_text()
    log = read_sealed(tmp_path / 'work' / 'epoch_4.pth')['ttl_mm']['log']
    assert len(log['train/loss']['values']) == 20
