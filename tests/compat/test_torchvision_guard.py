import subprocess
import sys

from ttl_mm.compat import torchvision_guard


def test_torchvision_and_its_transforms_work_behind_the_guard():
    code = (
        'from ttl_mm.compat.torchvision_guard import guard_torchvision as guard; guard(); guard()\n'
        'import torch; from torchvision.transforms import v2\n'
        'print(tuple(v2.Resize((4, 4))(torch.zeros(3, 8, 8)).shape))'
    )
    printed = subprocess.check_output([sys.executable, '-c', code], text=True)
    assert printed.strip() == '(3, 4, 4)'


def test_nothing_is_declared_where_the_ops_load(monkeypatch):
    monkeypatch.setattr(torchvision_guard, '_declared', [])
    monkeypatch.setattr(torchvision_guard, 'ops_load', lambda: True)
    torchvision_guard.guard_torchvision()
    assert torchvision_guard._declared == []
