import pytest

from ttl_mm.compat import torch_environment
from ttl_mm.compat.torch_environment import set_torch_environment

NEW, OLD = 'PYTORCH_ALLOC_CONF', 'PYTORCH_CUDA_ALLOC_CONF'


@pytest.mark.parametrize(('torch', 'name'), [('2.8.0', OLD), ('2.10.1+cu128', NEW)])
def test_memory_grows_in_segments_unless_the_user_says_otherwise(monkeypatch, torch, name):
    monkeypatch.setattr(torch_environment, 'version', lambda package: torch)
    plain: dict[str, str] = {}
    set_torch_environment(plain)
    assert plain == {'OMP_WAIT_POLICY': 'PASSIVE', name: 'expandable_segments:True'}
    chosen = {'OMP_WAIT_POLICY': 'ACTIVE', OLD: 'backend:native'}
    set_torch_environment(before := dict(chosen))
    assert before == chosen
