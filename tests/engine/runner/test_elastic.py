"""A run goes on with other numbers of processes: the same images, steps and losses."""

import re
import signal
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from tests.helpers.toy_run import (
    ITERATIONS,
    OUR_VIEWS,
    STOP,
    final_state,
    images_by_epoch,
    kill_at,
    log_file,
)
from ttl_mm.datasets import EpochSampler
from ttl_mm.datasets.train_loader import EpochBatches
from ttl_mm.engine.runner.loop import mean_outputs, split_batch
from ttl_mm.engine.state.exit_codes import PREEMPTED
from ttl_mm.engine.state.run_ranks import share
from ttl_mm.engine.state.train_state import in_order_of_ranks

EVERY_STEP = "dict(type='ttl_mm.CheckpointHook', interval=1, by_epoch=False, max_keep_ckpts=1)"
WATCH = "default_hooks.update(images=dict(type='ImagesHook'))\n"
# no BatchNorm, no dropout, and generators that each rank has its own of
PLAIN = """dict(
    type='ttl_mm.TTLAlgorithm', target_momentum=0.9, online_sizes=None, target_sizes=None,
    backbone=dict(
        type='ResNet_CIFAR', depth=18, base_channels=4, stem_channels=4, num_stages=1,
        strides=(2,), dilations=(1,), out_indices=(0,), norm_cfg=dict(type='GN', num_groups=2)),
    neck=dict(type='LinearNeck', in_channels=4, out_channels=8, gap_dim=2, norm_cfg=None),
    head=dict(
        type='ttl_mm.TruncatedTripletHead', gamma=1.0, deputy=(1, 2),
        predictor=dict(
            type='LinearNeck', in_channels=8, out_channels=8, gap_dim=0, norm_cfg=None)))"""
TARGET = (
    "default_hooks.update(target_update=dict(type='ttl_mm.TargetUpdateHook', horizon_iters=20))\n"
)


def batches_of(images, processes, process, ranks, epoch, taken, batch=4):
    """The batches of one process, as training makes them."""
    sampler = EpochSampler(range(images), seed=4)
    sampler.rank, sampler.world_size = process, processes
    loader = DataLoader(range(images), batch, sampler=sampler, drop_last=False)
    batches = EpochBatches(loader.batch_sampler, 4)
    shared = share(ranks, process, processes)
    if shared.parts > 1:
        assert batches.take_ranks(shared.ranks, shared.mine)
    batches.set_position(epoch, taken)
    return batches


@pytest.mark.parametrize('seed', range(30))
def test_every_image_once_per_epoch_over_random_histories(seed):
    """1 to 4 processes, interrupted in the middle of epochs, also where they do not divide."""
    rng = np.random.default_rng(seed)
    images = 12 * int(rng.integers(9, 60))  # whole last steps for every number of ranks
    ranks = first = int(rng.integers(1, 5))
    epoch, taken, seen = 0, 0, Counter()
    processes = first
    while epoch < 3:
        shared = [share(ranks, process, processes) for process in range(processes)]
        ranks = shared[0].ranks
        all_batches = [
            batches_of(images, processes, process, ranks, epoch, taken, batch=12)
            for process in range(processes)
        ]
        steps = int(rng.integers(1, images // 12))
        for done, parts in enumerate(zip(*all_batches), 1):
            seen.update(int(index) for batch in parts for index in batch)
            if done == steps:
                break
        taken = all_batches[0].taken_after(done)
        assert sum(seen.values()) == taken
        if taken >= images:
            assert sorted(seen) == list(range(images))
            assert set(seen.values()) == {1}
            epoch, taken, seen = epoch + 1, 0, Counter()
        processes = int(rng.integers(1, 5))


@pytest.mark.parametrize('processes', [1, 2, 4])
def test_the_batches_of_a_rank_are_the_same_whoever_makes_them(processes):
    """Of four ranks, in order."""
    expected = [list(batches_of(64, 4, rank, 4, 2, 16)) for rank in range(4)]
    for process in range(processes):
        shared = share(4, process, processes)
        for step, batch in enumerate(batches_of(64, processes, process, 4, 2, 16)):
            parts = split_batch({'index': batch}, shared.parts)
            assert [part['index'] for part in parts] == [expected[r][step] for r in shared.mine]


def test_parts_of_a_batch_and_states_in_order():
    views = [torch.arange(24.0).reshape(6, 1, 2, 2), torch.zeros(6, 1, 3, 3)]
    first, second = split_batch({'inputs': views, 'data_samples': list('abcdef')}, 2)
    assert [tuple(view.shape) for view in first['inputs']] == [(3, 1, 2, 2), (3, 1, 3, 3)]
    assert torch.equal(second['inputs'][0], views[0][3:])
    assert second['data_samples'] == list('def')
    assert mean_outputs([{'loss': torch.tensor(1.0)}, {'loss': torch.tensor(2.0)}])['loss'] == 1.5
    # ranks 0 and 2 on the first process, 1 and 3 on the second
    assert in_order_of_ranks([[0, 2], [1, 3]]) == [0, 1, 2, 3]


def mean_curve(work, ranks):
    """The mean loss of all ranks at every iteration, as the last start of each logged it."""
    losses = {}
    for rank in range(ranks):
        for line in (work / f'curve_{rank}.txt').read_text().splitlines():
            iteration, loss = line.split()
            losses.setdefault(int(iteration), []).append(float.fromhex(loss))
    return {iteration: float(np.mean(found)) for iteration, found in losses.items()}


@pytest.mark.parametrize('images', [44], indirect=True)
@pytest.mark.parametrize('accumulation', [1, 2])
def test_two_ranks_to_one_and_back_without_batch_norm(tmp_path, toy, accumulation):
    """Twice as many passes before a step, and the losses of the run that was not interrupted."""
    settings = dict(
        model=PLAIN, pipeline=OUR_VIEWS, loop=ITERATIONS.replace('20', '14'),
        accumulation=accumulation,
    )  # fmt: skip
    more = WATCH + TARGET
    assert toy('whole', ranks=2, more=more, **settings) == [0, 0]
    for ranks, stop in ((2, 4), (1, 9)):
        codes = toy('parts', ranks=ranks, more=more + STOP.format(stop), **settings)
        assert codes == [PREEMPTED] * ranks
    assert toy('parts', ranks=2, more=more, **settings) == [0, 0]
    log = log_file(tmp_path / 'parts').read_text()
    step = 8 * accumulation
    assert (
        '1 process for the work of 2 ranks, 2 each, one after another: an iteration still has 8 '
        f'images, an optimizer step {step}. What changes is the group of images that SyncBN' in log
    )
    assert 'SyncBN normalizes 2 x 4 images together from here on, in place of 1 x 4' in log
    whole, parts = (mean_curve(tmp_path / work, 2) for work in ('whole', 'parts'))
    assert list(parts) == list(whole) == list(range(1, 15))
    assert max(abs(parts[i] - whole[i]) for i in whole) < 1e-5
    left, right = final_state(tmp_path / 'parts'), final_state(tmp_path / 'whole')
    for name, tensor in left.items():
        assert torch.allclose(tensor.double(), right[name].double(), atol=1e-5), name
    seen = images_by_epoch(tmp_path / 'parts')
    for epoch in (0, 1):
        assert set(Counter(seen[epoch]).values()) == {1}
    assert {e: sorted(n) for e, n in seen.items()} == {
        e: sorted(n) for e, n in images_by_epoch(tmp_path / 'whole').items()
    }


@pytest.mark.faults
@pytest.mark.parametrize('images', [44], indirect=True)
def test_two_ranks_to_one_and_back_killed_each_time(tmp_path, toy):
    """Saved after every step; the step of the kill is made again."""
    settings = dict(checkpoint=EVERY_STEP, more=WATCH, workers=1)
    for ranks, step in ((2, 3), (1, 8), (2, 12), (1, 14)):
        codes = toy(ranks=ranks, prepare=partial(kill_at, step), **settings)
        assert codes == [-signal.SIGKILL] * ranks
    assert toy(ranks=2, **settings) == [0, 0]
    assert max(mean_curve(tmp_path / 'work', 2)) == 20
    seen = images_by_epoch(tmp_path / 'work')
    assert [len(seen[epoch]) for epoch in range(4)] == [40] * 4  # and 4 that make no whole step
    for names in seen.values():
        assert set(Counter(names).values()) == {1}


@pytest.mark.parametrize('images', [44], indirect=True)
def test_ranks_that_do_not_divide_let_the_rate_follow_and_come_back(tmp_path, toy):
    warm_up = (
        "param_scheduler = [dict(type='LinearLR', start_factor=0.1, end=61, by_epoch=False)]\n"
    )
    settings = dict(loop=ITERATIONS, more=WATCH + warm_up)
    for ranks, stop in ((2, 2), (3, 5)):  # all ranks know of it one iteration later
        stopped = {**settings, 'more': settings['more'] + STOP.format(stop)}
        assert toy(ranks=ranks, **stopped) == [PREEMPTED] * ranks
    assert toy(ranks=2, **settings) == [0, 0]
    log = log_file(tmp_path / 'work').read_text()
    seen = images_by_epoch(tmp_path / 'work')
    assert sum(map(len, seen.values())) == 160  # of 20 iterations on two ranks
    assert re.search(
        '3 ranks in place of 2: gradients of 1 iteration in place of 1 make an optimizer step of '
        '12 images in place of 8; the learning rate follows, times 1.5',
        log,
    )
    assert 'an optimizer step of 8 images in place of 12; the learning rate follows, times 1' in log
    assert 'SyncBN normalizes 3 x 4 images together from here on, in place of 2 x 4' in log
    rates = re.findall(r'follow the config from here on: (\S+) -> (\S+)\.', log)
    (before, after), (again, back) = ([float(x) for x in pair] for pair in rates)
    assert after == pytest.approx(1.5 * before, rel=0.01)
    assert back == pytest.approx(again / 1.5, rel=0.01)
    # 3 iterations of 8 images are 2 of 12, and then 6 of 12 are 9 of 8
    assert 'goes on by images seen: 2 of 14 are done now' in log
    assert 'goes on by images seen: 9 of 20 are done now' in log
    assert max(mean_curve(tmp_path / 'work', 2)) == 20


@pytest.mark.parametrize('images', [44], indirect=True)
def test_a_new_run_for_more_ranks_than_there_are_processes(tmp_path, toy, monkeypatch):
    """As an elastic run that begins before all machines are there."""
    monkeypatch.setenv('TTL_RANKS', '2')
    settings = dict(model=PLAIN, pipeline=OUR_VIEWS, loop=ITERATIONS.replace('20', '6'))
    assert toy('early', more=TARGET, **settings) == [0]
    assert toy('whole', ranks=2, more=TARGET, **settings) == [0, 0]
    early, whole = mean_curve(tmp_path / 'early', 1), mean_curve(tmp_path / 'whole', 2)
    assert max(abs(early[i] - whole[i]) for i in whole) < 1e-5
    monkeypatch.setenv('TTL_RANKS', 'many')
    assert toy('wrong', **settings) == [2]
    assert 'TTL_RANKS=many: give the number' in log_file(tmp_path / 'wrong').read_text()
