"""What is sure to go wrong is said before the first step."""

import pkgutil
import re

import pytest
import torch

from tests.helpers.toy_run import EPOCHS, ITERATIONS, ToyModel, curve, log_file, run, write_config
from ttl_mm.checkpoint.sealed import write_checkpoint
from ttl_mm.engine import guards
from ttl_mm.engine.state.exit_codes import PREEMPTED, USER_ERROR

SETTINGS = (
    'world_size', 'batch_size_per_rank', 'images', 'iterations_per_epoch', 'accumulative_counts',
    'seed',
)  # fmt: skip
TTL = """
model = dict(
    type='ttl_mm.TTLAlgorithm', online_sizes=None, target_sizes=None,
    backbone=dict(type='LeNet5'),
    neck=dict(type='LinearNeck', in_channels=120, out_channels=8),
    head=dict(
        type='ttl_mm.TruncatedTripletHead',
        predictor=dict(type='LinearNeck', in_channels=8, out_channels=8, gap_dim=0), {head}
    ),
)
"""
NARROW = "'ResNet_CIFAR', depth=18, base_channels=8, stem_channels=8"
PRETRAINED = "model.update(init_cfg=dict(type='Pretrained', checkpoint='{path}'{prefix}))"


def refusal(tmp_path, images, edits=None, more='', **settings) -> str:
    """Train by a toy config with a few words replaced; what the run said before it ended."""
    config = write_config(tmp_path / 'config.py', images, more=more, **settings)
    text = config.read_text()
    for old, new in (edits or {}).items():
        assert old in text
        text = text.replace(old, new)
    config.write_text(text)
    work = tmp_path / 'work'
    assert run(config, work) == [USER_ERROR]
    assert not (work / 'curve_0.txt').exists()
    assert not list(work.glob('*.pth'))
    lines = log_file(work).read_text().splitlines()
    (sentence,) = (line for line in lines if line.startswith('error: '))
    return sentence


@pytest.mark.parametrize('sampler', ['DefaultSampler', 'InfiniteSampler'])
@pytest.mark.parametrize('loop', [EPOCHS, ITERATIONS])
def test_no_images(tmp_path, sampler, loop):
    (tmp_path / 'empty').mkdir()
    edits = {'DefaultSampler': sampler}
    assert 'no images below' in refusal(tmp_path, tmp_path / 'empty', edits, loop=loop)


def test_fewer_images_than_a_batch(tmp_path, images):
    sentence = refusal(tmp_path, images, {'batch_size=4': 'batch_size=32'})
    assert '22 images on 1 rank: no batch of 32' in sentence


@pytest.mark.parametrize(
    ('head', 'edits', 'said'),
    [
        ('', {'batch_size=4': 'batch_size=1'}, 'batch_size=1: a single image'),
        (
            '',
            {'batch_size=4': 'batch_size=3', 'drop_last=True': 'drop_last=False'},
            '22 images a rank in batches of 3 leave a last batch of one',
        ),
        ('deputy=4', {}, 'a batch of 4 has 3'),
        ('deputy=(2, 10)', {}, 'a batch of 4 has 3'),
        ('', {"'LeNet5'": NARROW}, 'gives 64 channels and the neck takes 120'),
        ('', {}, 'no hook would move the target network. Add to the config'),
    ],
)
def test_a_self_supervised_model_that_cannot_train(tmp_path, images, head, edits, said):
    edits = {"model = dict(type='ToyModel')": TTL.format(head=head), **edits}
    assert said in refusal(tmp_path, images, edits)


@pytest.mark.parametrize(
    ('name', 'shape', 'said'),
    [
        ('backbone.other.weight', 3, '0 of the 17 tensors of the model'),
        ('neck.weight', (9, 9), '(9, 9) instead of (6, 8)'),
    ],
)
def test_a_checkpoint_that_does_not_fit(tmp_path, images, name, shape, said):
    torch.save({'state_dict': {name: torch.ones(shape)}}, tmp_path / 'other.pth')
    sentence = refusal(tmp_path, images, more=f"\nload_from = '{tmp_path / 'other.pth'}'\n")
    assert said in sentence
    assert name in sentence


@pytest.mark.parametrize('prefix', ['', ', prefix=None', ", prefix='old'"])
def test_initial_weights_that_do_not_fit(tmp_path, images, prefix):
    """Without the check, mmengine would go on with random weights."""
    torch.save({'state_dict': {'old.neck.weight': torch.ones(9, 9)}}, tmp_path / 'other.pth')
    more = PRETRAINED.format(path=tmp_path / 'other.pth', prefix=prefix)
    assert '0 of the 17 tensors of the model' in refusal(tmp_path, images, more=more)


def test_initial_weights_that_fit(tmp_path, images):
    state = {f'old.{name}': value for name, value in ToyModel().state_dict().items()}
    torch.save({'state_dict': state}, tmp_path / 'other.pth')
    more = PRETRAINED.format(path=tmp_path / 'other.pth', prefix=", prefix='old'")
    assert run(write_config(tmp_path / 'config.py', images, more=more), tmp_path / 'work') == [0]


def test_a_work_dir_in_use(tmp_path, images):
    config = write_config(tmp_path / 'config.py', images)
    assert run(config, tmp_path / 'work') == [0]
    assert run(config, tmp_path / 'work', resume=None) == [USER_ERROR]
    assert (
        'reached iteration 20 (epoch_4.pth): add --resume'
        in log_file(tmp_path / 'work').read_text()
    )


def test_the_work_dir_of_another_model(tmp_path, images):
    (tmp_path / 'work').mkdir()
    state = {
        'meta': {'seed': 0, 'epoch': 0, 'iter': 1}, 'state_dict': {'fc.weight': torch.ones(1)},
        'optimizer': {}, 'param_schedulers': [], 'message_hub': {'runtime_info': {}},
        'ttl_mm': {
            'ranks': [], 'hooks': {}, 'config': '{}', 'settings': dict.fromkeys(SETTINGS, 1),
        },
    }  # fmt: skip
    write_checkpoint(tmp_path / 'work' / 'iter_1.pth', state, 1, 0)
    config = write_config(tmp_path / 'config.py', images)
    assert run(config, tmp_path / 'work') == [USER_ERROR]
    log = log_file(tmp_path / 'work').read_text()
    assert 'The config describes another model than the checkpoint' in log
    assert 'fc.weight' in log


def test_accumulation_longer_than_the_run(tmp_path, images):
    config = write_config(tmp_path / 'config.py', images, accumulation=50)
    assert run(config, tmp_path / 'work') == [0]
    log = log_file(tmp_path / 'work').read_text()
    assert 'accumulative_counts=50 is more than this run has, 20 iterations' in log


def stop_and_go_on(tmp_path, images, loop=EPOCHS, **changes):
    """Stop after 8 of 20 iterations, go on with a batch of 7 instead of 4; the work dir."""
    config, work = tmp_path / 'config.py', tmp_path / 'work'
    stop = "custom_hooks = [dict(type='SignalHook', at=8)]"
    assert run(write_config(config, images, loop, more=stop), work) == [PREEMPTED]
    write_config(config, images, loop, **changes)
    config.write_text(config.read_text().replace('batch_size=4', 'batch_size=7'))
    assert run(config, work) == [0]
    return work


def test_what_no_longer_matches_is_said_on_resume(tmp_path, images):
    work = stop_and_go_on(tmp_path, images, accumulation=2)
    log = log_file(work).read_text()
    assert 'batch size per rank 4 -> 7' in log
    assert 'iterations per epoch 5 -> 3' in log
    assert 'optim_wrapper.accumulative_counts: 1 -> 2' in log
    # 12 of the 22 images of the second epoch were used: one batch of 7 is left of it, the last of
    # the 6 that two epochs have now
    lines = (work / 'curve_0.txt').read_text().splitlines()
    assert [int(line.split()[0]) for line in lines] == [*range(1, 9), *range(6, 13)]


def test_a_run_that_counts_iterations_goes_on_counting(tmp_path, images):
    work = stop_and_go_on(tmp_path, images, ITERATIONS)
    assert list(curve(work)) == list(range(1, 21))


@pytest.mark.parametrize('images', [44], indirect=True)
def test_a_batch_that_the_learning_rate_is_not_meant_for(tmp_path, toy):
    few = ITERATIONS.replace('20', '1')
    for work, base, enable in (('same', 8, False), ('other', 4, False)):
        scaling = f'auto_scale_lr = dict(enable={enable}, base_batch_size={base})\n'
        assert toy(work, ranks=2, loop=few, more=scaling) == [0, 0]
        warned = (
            '2 processes x 4 = 8 images, and the learning rate is meant for 4 '
            '(auto_scale_lr.base_batch_size). To scale it with the batch (from 0.05 to 0.1)'
        ) in log_file(tmp_path / work).read_text()
        assert warned == (work == 'other')


def test_the_list_of_guards_names_every_file():
    listed = set(re.findall(r'``(\w+)``', guards.__doc__))
    assert listed == {module.name for module in pkgutil.iter_modules(guards.__path__)}
