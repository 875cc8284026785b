"""What the checks say of GPUs, which the machine that runs these tests may not have."""

import pytest

from ttl_mm.planning.memory import MemoryUse
from ttl_mm.selftest import part_checks
from ttl_mm.selftest.checks import FAIL, PASS
from ttl_mm.selftest.ranks import Job


@pytest.fixture
def job(tmp_path):
    (tmp_path / 'whole.py').write_text('train_dataloader = dict(batch_size=4)\n')
    return Job(tmp_path, ranks=2, amp='bf16', scaled='fp16', seconds=300)


def test_both_networks_are_checked_and_named(job):
    def checked(nccl_sums):
        nccl = [dict(sum=s, seconds=0.001, interface='NET/IB mlx5_0:1') for s in nccl_sums]
        gloo = dict(sum=3, seconds=0.002, interface='ib0 (10.0.0.2)')
        found = [{'connect': {'gloo': gloo, 'nccl': of_rank}} for of_rank in nccl]
        return part_checks.network_checks(job, found, 'cuda')

    gloo, nccl = checked([3, 3])
    assert (gloo.name, gloo.status, nccl.name, nccl.status) == ('gloo', PASS, 'nccl', PASS)
    assert 'ib0 (10.0.0.2)' in gloo.found
    assert 'NET/IB mlx5_0:1' in nccl.found
    _, nccl = checked([3, 0])
    assert nccl.status == FAIL
    assert 'NCCL_SOCKET_IFNAME' in nccl.remedy


def test_memory_of_a_gpu_is_compared_with_the_plan_for_gpus(job, monkeypatch):
    use = MemoryUse(fixed=2**30, per_image=2**28)
    monkeypatch.setattr(part_checks, 'measure_recipe', lambda recipe: use)

    def status(share):
        peak = int(share * use.bytes_on_device(4))
        found = [{'whole': {'peak_memory': p}} for p in (0, peak)]
        (check,) = part_checks.memory_checks(job, found, 'cuda')
        return check.status

    assert [status(1.05), status(1.15)] == [PASS, FAIL]
