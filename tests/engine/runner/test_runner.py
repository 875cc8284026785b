"""Runner beside mmengine's own tests of it (tools/mmengine_runner_tests.py)."""

from pathlib import Path

import pytest
import torch
from mmengine.evaluator import BaseMetric
from mmengine.logging import MessageHub
from mmengine.registry import DATASETS, METRICS
from mmengine.runner.priority import get_priority

from tests.helpers.toy_run import ITERATIONS, log_file, make_images, run, write_config
from ttl_mm.checkpoint.sealed import read_sealed, write_checkpoint
from ttl_mm.config import read_config
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.engine.runner.runner import Runner
from ttl_mm.engine.runner.substitutes import DEFAULT_HOOKS
from ttl_mm.engine.state.exit_codes import PREEMPTED
from ttl_mm.errors import UserError

EVALUATED = """
val_dataloader = dict(
    batch_size=2,
    collate_fn=dict(type='default_collate'),
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(type='RandomPixels'),
)
val_cfg = dict()
val_evaluator = dict(type='CountImages')
test_dataloader, test_cfg, test_evaluator = val_dataloader, val_cfg, val_evaluator
"""


@DATASETS.register_module(force=True)
class RandomPixels(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> dict:
        return {'inputs': torch.full((3, 8, 8), index)}


@METRICS.register_module(force=True)
class CountImages(BaseMetric):
    def process(self, data_batch, data_samples) -> None:
        self.results.append(len(data_batch['inputs']))

    def compute_metrics(self, results: list) -> dict:
        return {'images': sum(results)}


def make_runner(folder: Path, more: str = '', **options) -> Runner:
    config = write_config(folder / 'config.py', make_images(folder / 'images'), more=more)
    cfg = read_config(config, options)
    cfg.work_dir = str(folder / 'work')
    return Runner.from_cfg(cfg)


@pytest.mark.parametrize('resume', [False, True])
def test_val_and_test_build_no_training_loop(tmp_path, monkeypatch, resume):
    if resume:
        config = write_config(tmp_path / 'first.py', make_images(tmp_path / 'images'))
        assert run(config, tmp_path / 'work') == [0]

    def scan(self):
        raise AssertionError('the training data were read')

    monkeypatch.setattr(ImageFolder, '__init__', scan)
    for method in ('val', 'test'):
        runner = make_runner(tmp_path, EVALUATED, **({'+resume': True} if resume else {}))
        assert getattr(runner, method)() == {'images': 4}
        assert isinstance(runner._train_loop, dict)
        assert (runner.epoch, runner.iter) == (0, 0)
        if resume:
            saved = read_sealed(tmp_path / 'work' / 'epoch_4.pth')['state_dict']
            assert runner.model.neck.weight.equal(saved['neck.weight'])


def test_a_validation_that_the_end_cut_off_is_made_up_for(tmp_path):
    """The signal comes in the last iteration: its checkpoint is older than its validation."""
    hook = "dict(type='ttl_mm.CheckpointHook', save_best='images')"
    images, work = make_images(tmp_path / 'images'), tmp_path / 'work'
    stop = EVALUATED + "custom_hooks = [dict(type='SignalHook', at=20)]\n"
    for more, code, best in ((stop, PREEMPTED, False), (EVALUATED, 0, True)):
        config = write_config(
            tmp_path / 'config.py', images, loop=ITERATIONS, checkpoint=hook, more=more
        )
        assert run(config, work) == [code]
        assert (work / 'best_images.pth').exists() == best


def test_resume_reads_the_file_it_is_given(tmp_path, monkeypatch):
    """The config alone would choose the newest."""
    every = "dict(type='ttl_mm.CheckpointHook', interval=1)"
    images, resumed = make_images(tmp_path / 'images'), []
    config = write_config(tmp_path / 'config.py', images, checkpoint=every)
    assert run(config, tmp_path / 'work') == [0]
    monkeypatch.setattr(
        'ttl_mm.engine.runner.runner.continue_run', lambda *args: resumed.append(args[1]['meta'])
    )
    make_runner(tmp_path, **{'+resume': True}).resume(str(tmp_path / 'work' / 'epoch_2.pth'))
    assert (resumed[0]['epoch'], resumed[0]['iter']) == (2, 10)


def test_type_and_by_epoch_together_are_refused(tmp_path):
    runner = make_runner(tmp_path, **{'+train_cfg.by_epoch': True})
    with pytest.raises(UserError, match="type='EpochBasedTrainLoop' and by_epoch=True"):
        runner.train()


def test_hooks_run_in_the_order_listed_and_the_log_says_what_was_put_in(tmp_path, monkeypatch):
    runner, lines = make_runner(tmp_path), []
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


def test_the_message_hub_of_a_checkpoint_is_mmengines(tmp_path):
    config = write_config(tmp_path / 'config.py', make_images(tmp_path / 'images'))
    assert run(config, tmp_path / 'work') == [0]
    state = read_sealed(tmp_path / 'work' / 'epoch_4.pth')
    hub = MessageHub.get_instance('stranger')
    hub.load_state_dict(state['message_hub'])
    assert (hub.get_info('epoch'), hub.get_info('iter')) == (3, 19)
    assert len(state['ttl_mm']['log']['train/loss']['values']) == 20


def test_a_checkpoint_of_the_first_layout_resumes(tmp_path):
    """Its log lay in message_hub, its settings were spelled with spaces."""
    config = write_config(tmp_path / 'config.py', make_images(tmp_path / 'images'))
    assert run(config, tmp_path / 'work', cfg_options={'train_cfg.max_epochs': 2}) == [0]
    state = read_sealed(tmp_path / 'work' / 'epoch_2.pth')
    own = state['ttl_mm']
    state['message_hub'] = {
        'log_scalars': own.pop('log'),
        'runtime_info': state['message_hub']['runtime_info'],
    }
    names = ('world size', 'batch size per rank', 'images', 'iterations per epoch')
    old = {name: own['settings'][name.replace(' ', '_')] for name in names}
    own['settings'] = {**old, 'accumulative_counts': 1, 'seed': own['settings']['seed']}
    write_checkpoint(tmp_path / 'work' / 'epoch_2.pth', state, 10, 2)
    assert run(config, tmp_path / 'work') == [0]
    assert 'Not the same run' not in log_file(tmp_path / 'work').read_text()
    log = read_sealed(tmp_path / 'work' / 'epoch_4.pth')['ttl_mm']['log']
    assert len(log['train/loss']['values']) == 20
