"""What an import brings along. Modules are counted, not seconds: a clock depends on the machine."""

import subprocess
import sys

HEAVY = {'cv2', 'matplotlib', 'mmcv', 'mmdet', 'mmengine', 'mmpretrain', 'numpy', 'PIL', 'rich',
         'scipy', 'sklearn', 'torch', 'torchvision'}  # fmt: skip


def imported_by(module: str, without: tuple[str, ...] = ()) -> set[str]:
    """The heavy packages that a fresh interpreter holds after the import, which prints nothing.

    Modules that are named in ``without`` cannot be imported.
    """
    code = f"""
import sys
sys.modules.update(dict.fromkeys({without}))
import {module}
print(*{{name.split('.')[0] for name in sys.modules}})"""
    run = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert (run.stdout.count('\n'), run.stderr) == (1, '')
    return HEAVY & set(run.stdout.split())


def test_imports_stay_light():
    """So that `import ttl_mm`, `ttl --help` and classifiers of arrays answer at once."""
    assert imported_by('ttl_mm') == set()
    assert imported_by('ttl_mm.cli') == set()
    assert not imported_by('ttl_mm.evaluation') & {'mmcv', 'mmpretrain', 'mmdet'}


def test_the_loss_needs_torch_alone():
    """It computes where neither mmengine nor another package of OpenMMLab can be imported."""
    code = """
import sys
sys.modules.update(dict.fromkeys(['mmengine', 'mmcv', 'mmpretrain', 'mmdet']))
import torch
from ttl_mm.models import deputy_ranks, truncated_triplet_loss
print(truncated_triplet_loss(torch.eye(4), torch.eye(4), deputy_ranks(3)).item())
"""
    run = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ('-2.0\n', '')
    assert imported_by('ttl_mm.models.losses') == imported_by('torch')


def test_a_run_starts_without_warnings_of_other_packages_where_mmcv_has_no_ops():
    """As on a fresh machine, where nothing was compiled; mmcv and mmpretrain warn of it."""
    absent = ('mmcv._ext', 'mmdet')
    assert 'mmpretrain' in imported_by('ttl_mm.engine.runner.processes', absent)
