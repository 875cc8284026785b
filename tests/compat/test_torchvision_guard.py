import subprocess
import sys


def run(code):
    return subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)


def test_torchvision_and_its_transforms_work_behind_the_guard():
    result = run(
        'from ttl_mm.compat.torchvision_guard import guard_torchvision as guard\n'
        'guard(); guard()\n'
        'import torch\n'
        'from torchvision.transforms import v2\n'
        'print(tuple(v2.Resize((4, 4))(torch.zeros(3, 8, 8)).shape))'
    )
    assert result.stdout.strip() == '(3, 4, 4)', result.stderr


def test_nothing_is_declared_where_the_ops_load():
    result = run(
        'from ttl_mm.compat import torchvision_guard as guard\n'
        'guard.ops_load = lambda: True\n'
        'guard.guard_torchvision()\n'
        'print(guard._declared)'
    )
    assert result.stdout.strip() == '[]', result.stderr


def test_nothing_happens_at_import_of_the_package():
    result = run('import ttl_mm, sys; print("torch" in sys.modules, "mmengine" in sys.modules)')
    assert result.stdout.strip() == 'False False', result.stderr
