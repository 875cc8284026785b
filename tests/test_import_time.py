"""What an import brings along. Modules are counted, not seconds: a clock depends on the machine."""

import subprocess
import sys

HEAVY = {'cv2', 'matplotlib', 'mmcv', 'mmdet', 'mmengine', 'mmpretrain', 'numpy', 'PIL', 'rich',
         'scipy', 'sklearn', 'torch', 'torchvision'}  # fmt: skip


def imported_by(module: str) -> set[str]:
    """The heavy packages that a fresh interpreter holds after the import, which prints nothing."""
    code = f'import sys, {module}; print(*{{name.split(".")[0] for name in sys.modules}})'
    run = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert (run.stdout.count('\n'), run.stderr) == (1, '')
    return HEAVY & set(run.stdout.split())


def test_imports_stay_light():
    """So that `import ttl_mm`, `ttl --help` and classifiers of arrays answer at once."""
    assert imported_by('ttl_mm') == set()
    assert imported_by('ttl_mm.cli') == set()
    assert not imported_by('ttl_mm.evaluation') & {'mmcv', 'mmpretrain', 'mmdet'}
