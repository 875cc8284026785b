"""A checkpoint holds what differs between ranks, and everything else once."""

import pytest
import torch
from mmengine.model import ExponentialMovingAverage
from mmengine.registry import MODELS
from torch import nn

from tests.helpers.toy_run import ITERATIONS, ToyModel, curve
from ttl_mm.checkpoint.sealed import read_sealed, sealed_files, write_checkpoint
from ttl_mm.engine.state.exit_codes import PREEMPTED

EVERY = "dict(type='ttl_mm.CheckpointHook', interval=1, by_epoch=False)"
BANK = "model.update(type='BankModel')\n"


@MODELS.register_module(force=True)
class BankModel(ToyModel):
    """A toy with a memory bank, the same on all ranks, and more weights: 0.5 MB each."""

    def __init__(self, **settings) -> None:
        super().__init__(**settings)
        self.register_buffer('bank', torch.zeros(1024, 128))
        self.neck = nn.Sequential(nn.Linear(8, 4096), nn.Linear(4096, 30), nn.Linear(30, 6))
        self.target = ExponentialMovingAverage(nn.Sequential(self.backbone, self.neck), 0.1)

    def forward(self, inputs, data_samples=None, mode='loss'):
        self.bank += 1
        return super().forward(inputs, data_samples, mode)


def checkpoints(work):
    return {seal.iteration: path for path, seal in sealed_files(work)}


@pytest.mark.parametrize(
    ('images', 'ranks'),
    [(44, 2), pytest.param(176, 8, marks=pytest.mark.faults)],
    indirect=['images'],
)
def test_more_ranks_make_no_larger_files_at_any_iteration(tmp_path, toy, ranks):
    """Inside an accumulation (1, 2, 4) and at its end (3)."""
    found = []
    for count in (1, ranks):
        loop = ITERATIONS.replace('20', '4')
        settings = dict(loop=loop, accumulation=3, checkpoint=EVERY, more=BANK)
        assert toy(f'{count}', count, **settings) == [0] * count
        found.append(checkpoints(tmp_path / f'{count}'))
    one, several = ({i: p.stat().st_size for i, p in of.items()} for of in found)
    for iteration in (1, 2, 3, 4):
        assert several[iteration] <= 1.1 * one[iteration]
    states = [read_sealed(found[1][i])['ttl_mm'] for i in (2, 3)]
    for rank, of_rank in enumerate(states[0]['ranks']):  # BN statistics are each rank's own
        own = set(of_rank['buffers'])
        assert 'bank' not in own
        assert ('backbone.2.running_mean' in own) == (rank > 0)
    assert states[0]['gradients'].keys() == {
        name for name, p in BankModel().named_parameters() if p.requires_grad
    }
    assert states[1]['gradients'] == {}


@pytest.mark.parametrize('images', [44], indirect=True)
def test_a_resume_inside_an_accumulation_of_two_ranks_equals_the_run_that_went_on(tmp_path, toy):
    """Also from a checkpoint of earlier versions, which has a gradient for every rank."""
    settings = dict(ranks=2, accumulation=3, checkpoint=EVERY, loop=ITERATIONS)
    assert toy('whole', **settings) == [0, 0]
    state = read_sealed(tmp_path / 'whole' / 'iter_8.pth')
    gradients = state['ttl_mm']['gradients']
    assert gradients
    for work in ('resumed', 'earlier'):
        (tmp_path / work).mkdir()
        write_checkpoint(tmp_path / work / 'iter_8.pth', state, 8, state['meta']['epoch'])
        assert toy(work, **settings) == [0, 0]
        for rank in (0, 1):
            whole = curve(tmp_path / 'whole', rank)
            assert curve(tmp_path / work, rank) == {i: whole[i] for i in range(9, 21)}
        for of_rank in state['ttl_mm']['ranks']:
            of_rank['gradients'] = gradients
        state['ttl_mm'].pop('gradients', None)


@pytest.mark.parametrize('images', [44], indirect=True)
def test_a_signal_inside_a_long_accumulation_is_answered_at_once(tmp_path, toy):
    """Within a short one, the step is awaited (test_resume_exact)."""
    stop = "custom_hooks = [dict(type='SignalHook', at=3)]\n"
    settings = dict(ranks=2, accumulation=15, loop=ITERATIONS, more=stop)
    assert toy(**settings) == [PREEMPTED, PREEMPTED]
    assert max(checkpoints(tmp_path / 'work')) == 4
