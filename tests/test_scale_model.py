"""The model of docs/scale.md: its formulas against a simulation, its messages against the recipe,
its page against the command that prints it.
"""

import importlib
import math
import socket
import sys
from functools import partial

import pytest
import torch
from mmengine.config import Config
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import init_default_scope
from torch import distributed as dist
from torch import nn

from tests.helpers.forked import fork, wait
from tests.helpers.paths import ROOT
from ttl_mm.compat.torch_private import BatchNorm
from ttl_mm.registry import MODELS

BENCHMARKS = str(ROOT / 'tools' / 'benchmarks')
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(BENCHMARKS)
    model = importlib.import_module('scale_model')


def ring(ranks: int, size: float) -> tuple[int, float]:
    """Turns of a reduce-scatter and an all-gather that rings of ranks really make, and the bytes
    that each rank passes on in them.
    """
    held = [[{rank} for _ in range(ranks)] for rank in range(ranks)]  # who is in each part's sum
    turns = 0
    for phase in ('reduce', 'gather'):
        for step in range(ranks - 1):
            sent = []
            for rank in range(ranks):
                part = (rank - step + (phase == 'gather')) % ranks
                sent.append((part, set(held[rank][part])))
            for rank in range(ranks):
                part, who = sent[rank - 1]
                held[rank][part] = who | (held[rank][part] if phase == 'reduce' else set())
            turns += 1
    assert all(part == set(range(ranks)) for rank in held for part in rank)
    return turns, turns * size / ranks


@pytest.mark.parametrize('ranks', [2, 3, 4, 8])
def test_a_ring_has_the_turns_and_bytes_of_the_formula(ranks):
    turns, passed_on = ring(ranks, 6e6)
    gloo = model.Gloo(turn=2e-4, byte=1e-9, cores=64)
    assert gloo.all_reduce(6e6, ranks) == pytest.approx(2e-4 * turns + 1e-9 * passed_on)
    called = model.Gloo(turn=2e-4, byte=1e-9, cores=64, call=1e-3)
    for name in ('all_reduce', 'all_gather'):
        more = getattr(called, name)(6e6, ranks) - getattr(gloo, name)(6e6, ranks)
        assert more == pytest.approx(1e-3 if ranks > 1 else 0)
    shared = model.Gloo(turn=2e-4, byte=1e-9, cores=1)
    assert shared.all_reduce(6e6, ranks) == pytest.approx(ranks * gloo.all_reduce(6e6, ranks))


def test_parts_of_a_step_by_hand():
    class Fixed:
        def all_reduce(self, size, ranks):
            return 1e-3 + size / 1e9

        def all_gather(self, size, ranks):
            return 2e-3

    work = model.Work(10, 0.1, 0.02, 60e6, (100, 100), (80,), accumulation=3, update=0.04)
    step = model.step_time(work, 4, Fixed(), loading=0.2, crowded=1.5)
    assert step.compute == pytest.approx(3 * 0.15 + 1.5 * 0.04)
    assert step.sync == pytest.approx(3 * (2 * 2e-3 + 1e-3 + 80 / 1e9))
    assert step.data == pytest.approx(3 * (0.2 - 0.15) - step.sync)
    # two buckets of 26.2 MB and one of 7.6 MB, of which 20 ms hide behind the backward pass
    assert step.exposed == pytest.approx(3e-3 + 0.06 - 0.02)
    assert step.images == 120
    hidden = model.step_time(work, 1, Fixed())
    assert (hidden.sync, hidden.exposed, hidden.data) == (0, 0, 0)
    slow_backward = model.Work(10, 0.1, 0.09, 60e6)
    assert model.step_time(slow_backward, 2, Fixed()).exposed == pytest.approx(
        1e-3 + model.BUCKET / 1e9
    )


def test_more_gpus_never_make_a_message_faster():
    for size in (516, 32_772, 25e6):
        spent = [model.DGX.all_reduce(size, p) for p in model.COUNTS[1:]]
        assert spent == sorted(spent)
        assert all(math.isfinite(seconds) for seconds in spent)


def test_messages_and_weights_are_those_of_the_main_recipe():
    cfg = Config.fromfile(ROOT / 'configs/ttl_r50_8xb104_200e.py')
    init_default_scope('mmpretrain')
    network = revert_sync_batchnorm(MODELS.build(cfg.model)).train()
    gathers, reduces = [], []

    def note(layer, inputs):
        gathers.append(4 * (2 * layer.num_features + 1))
        if torch.is_grad_enabled():
            reduces.append(8 * layer.num_features)

    for layer in network.modules():
        if isinstance(layer, BatchNorm):
            layer.register_forward_pre_hook(note)
    network.online_sizes = network.target_sizes = None  # views stay small
    network.set_progress(0, 0)
    network.loss([torch.randn(2, 3, 32, 32) for _ in range(2)], None)
    work = model.main_recipe(8)
    assert sorted(gathers) == sorted(work.gathers)
    assert sorted(reduces) == sorted(work.reduces)
    assert work.gradient == 4 * sum(p.numel() for p in network.parameters() if p.requires_grad)
    for mean, (low, high) in ((model.AREA_ONLINE, (96, 224)), (model.AREA_TARGET, (128, 224))):
        sizes = range(low, high + 1)
        assert mean == pytest.approx(sum(s * s for s in sizes) / len(sizes) / 224**2, abs=1e-4)


def test_the_page_has_what_the_command_prints():
    assert model.tables() in (ROOT / 'docs/scale.md').read_text()


def test_the_benchmark_s_synchronized_norm_is_batch_norm_of_all_ranks():
    with socket.socket() as sock:
        sock.bind(('127.0.0.1', 0))
        port = sock.getsockname()[1]
    assert wait([fork(partial(_compare, rank, port)) for rank in range(2)]) == [0, 0]


def _compare(rank: int, port: int) -> int:
    sys.path.insert(0, BENCHMARKS)
    bench = importlib.import_module('bench_scale')
    dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=2)
    torch.manual_seed(0)
    images, wanted = torch.randn(6, 5, 4, 4), torch.randn(6, 5, 4, 4)
    plain, synced = nn.BatchNorm2d(5), bench.GlooSyncBN(5)
    for layer in (plain, synced):
        nn.init.constant_(layer.weight, 1.5)
    whole = images.clone().requires_grad_()
    (plain(whole) * wanted).sum().backward()
    mine = slice(3 * rank, 3 * rank + 3)
    part = images[mine].clone().requires_grad_()
    result = synced(part)
    (result * wanted[mine]).sum().backward()
    assert torch.allclose(result, plain(images)[mine], atol=1e-5)
    assert torch.allclose(part.grad, whole.grad[mine], atol=1e-5)
    dist.destroy_process_group()
    return 0
