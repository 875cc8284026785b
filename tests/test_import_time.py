"""What an import brings along. Modules are counted, not seconds: a clock depends on the machine."""

import subprocess
import sys

HEAVY = {'cv2', 'matplotlib', 'mmcv', 'mmdet', 'mmengine', 'mmpretrain', 'numpy', 'PIL', 'rich',
         'scipy', 'sklearn', 'torch', 'torchvision'}  # fmt: skip


def imported_by(code: str, without: tuple[str, ...] = ()) -> list[set[str]]:
    """The heavy packages that a fresh interpreter holds at each ``look()`` of ``code``.

    It prints nothing else. Modules that are named in ``without`` cannot be imported.
    """
    before = f"""
import sys
sys.modules.update(dict.fromkeys({without}))
look = lambda: print(*{{name.split('.')[0] for name, m in sys.modules.items() if m}})
"""
    run = subprocess.run([sys.executable, '-c', before + code], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, '')
    looks = run.stdout.splitlines()
    assert len(looks) == code.count('look()')
    return [HEAVY & set(line.split()) for line in looks]


def test_imports_stay_light():
    """So that `import ttl_mm`, `ttl --help` and classifiers of arrays answer at once."""
    code = 'import ttl_mm; look(); import ttl_mm.cli; look(); import ttl_mm.evaluation; look()'
    package, command, evaluation = imported_by(code)
    assert package == command == set()
    assert not evaluation & {'mmcv', 'mmpretrain', 'mmdet'}


def test_the_loss_needs_torch_alone():
    """It imports neither mmengine nor another package of OpenMMLab, so it works without them."""
    code = """
import torch; look()
from ttl_mm.models import deputy_ranks, truncated_triplet_loss; look()
assert truncated_triplet_loss(torch.eye(4), torch.eye(4), deputy_ranks(3)).item() == -2.0
"""
    with_torch, with_the_loss = imported_by(code)
    assert with_the_loss == with_torch


def test_a_run_starts_without_warnings_of_other_packages_where_mmcv_has_no_ops():
    """As on a fresh machine, where nothing was compiled; mmcv and mmpretrain warn of it."""
    absent = ('mmcv._ext', 'mmdet')
    assert 'mmpretrain' in imported_by('import ttl_mm.engine.runner.processes; look()', absent)[0]
