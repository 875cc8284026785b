"""What ``--amp``, a recipe and a device make of each other."""

import pytest
from mmengine.config import Config

from tests.helpers.paths import ROOT
from ttl_mm.engine.optim import amp as devices
from ttl_mm.engine.runner import precision
from ttl_mm.engine.runner.precision import choose_precision
from ttl_mm.errors import UserError

PLAIN = {'type': 'OptimWrapper'}
STOCK = {'type': 'AmpOptimWrapper', 'loss_scale': 512.0}
OURS = {'type': 'ttl_mm.AmpOptimWrapper', 'loss_scale': 'dynamic'}


@pytest.fixture
def chosen(monkeypatch):
    """A function that gives the optim wrapper of a config after the choice, on a device."""

    def choose(wrapper, amp, device, generation=8):
        monkeypatch.setattr(precision, 'get_device', lambda: device)
        cuda = devices.torch.cuda
        monkeypatch.setattr(cuda, 'get_device_capability', lambda: (generation, 0))
        monkeypatch.setattr(cuda, 'get_device_name', lambda: 'an old GPU')
        cfg = Config({'optim_wrapper': dict(wrapper)})
        choose_precision(cfg, amp)
        return cfg.optim_wrapper.to_dict()

    return choose


def test_an_option_decides_and_is_written_into_the_config(chosen):
    bf16, fp16 = dict(OURS, dtype='bfloat16'), dict(OURS, dtype='float16')
    assert chosen(PLAIN, 'auto', 'cuda') == chosen(PLAIN, 'bf16', 'cpu') == bf16
    assert chosen(PLAIN, 'auto', 'cuda', generation=7) == chosen(bf16, 'fp16', 'cuda') == fp16
    assert chosen(STOCK, 'fp16', 'cuda') == dict(fp16, loss_scale=512.0)
    assert chosen(OURS, 'off', 'cuda') == chosen(PLAIN, 'off', 'cuda') == PLAIN
    with pytest.raises(UserError, match='an old GPU does not compute in bfloat16'):
        chosen(PLAIN, 'bf16', 'cuda', generation=7)
    with pytest.raises(UserError, match='use fp16, bf16 or off'):
        chosen(PLAIN, 'fp8', 'cuda')


def test_without_an_option_the_config_decides_except_on_a_cpu(chosen):
    assert chosen(PLAIN, None, 'cuda') == PLAIN
    assert chosen(STOCK, None, 'cuda') == STOCK
    assert chosen(OURS, None, 'cuda') == dict(OURS, dtype='bfloat16')
    assert chosen(STOCK, None, 'cpu') == chosen(OURS, None, 'cpu') == PLAIN


def test_the_main_recipe_asks_for_mixed_precision():
    recipe = Config.fromfile(ROOT / 'configs/ttl_r50_8xb104_200e.py')
    assert devices.uses_amp(recipe.optim_wrapper)
