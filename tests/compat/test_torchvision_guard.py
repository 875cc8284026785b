import subprocess
import sys

from ttl_mm.compat import torchvision_guard


def printed(code):
    result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_torchvision_and_its_transforms_work_behind_the_guard():
    code = (
        'from ttl_mm.compat.torchvision_guard import guard_torchvision as guard; guard(); guard()\n'
        'import torch; from torchvision.transforms import v2\n'
        'print(tuple(v2.Resize((4, 4))(torch.zeros(3, 8, 8)).shape))'
    )
    assert printed(code) == '(3, 4, 4)'


def test_nothing_is_declared_where_the_ops_load(monkeypatch):
    monkeypatch.setattr(torchvision_guard, '_declared', [])
    monkeypatch.setattr(torchvision_guard, 'ops_load', lambda: True)
    torchvision_guard.guard_torchvision()
    assert torchvision_guard._declared == []


def test_nothing_happens_at_import_of_the_package():
    code = 'import ttl_mm, sys; print("torch" in sys.modules, "mmengine" in sys.modules)'
    assert printed(code) == 'False False'
