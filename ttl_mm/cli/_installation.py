"""Checks of the installation, each a small function that returns or yields findings.

A check never raises: an import that fails is what it is there to report.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distributions, requires, version
from itertools import takewhile

from ttl_mm.compat import torchvision_guard
from ttl_mm.ending import INSTALL_STACK

# import name -> the distributions that provide it, and the oldest version tested
STACK = {
    'mmengine': (('onedl-mmengine', 'mmengine'), (0, 10, 7)),
    'mmcv': (('onedl-mmcv', 'mmcv', 'mmcv-lite'), (2, 1, 0)),
    'mmpretrain': (('onedl-mmpretrain', 'mmpretrain'), (1, 2, 0)),
    'mmdet': (('onedl-mmdetection', 'mmdet'), (3, 3, 0)),
    'mmselfsup': (('mmselfsup',), (1, 0, 0)),
}
NEEDED = ('mmengine', 'mmcv', 'mmpretrain')  # the others are for some users only
# all of them install the module cv2, into the same files
OPENCV = (
    'opencv-python-headless', 'opencv-python',
    'opencv-contrib-python-headless', 'opencv-contrib-python',
)  # fmt: skip
LIGHT = f'run `make light` in a checkout, or `{INSTALL_STACK}`'
FULL = 'run `make full` in a checkout'


@dataclass
class Finding:
    """One line of the report: ``level`` is 'ok', 'warning' or 'failure'."""

    level: str
    subject: str
    text: str


def diagnose(data_folder: str = '.') -> list[Finding]:
    """Run every check, in the order in which a user would fix things."""
    return [
        check_python(),
        check_torch(),
        check_torchvision(),
        *map(check_package, STACK),
        *check_families(),
        check_opencv(),
        check_ops(),
        check_numpy(),
        *check_accelerator(),
        check_disk(data_folder),
        *check_workers(),
    ]


def installed(*distributions: str) -> tuple[str, str] | None:
    """The first of the distributions that is installed, with its version."""
    for name in distributions:
        with suppress(PackageNotFoundError):
            return name, version(name)
    return None


def release(text: str) -> tuple[int, ...]:
    """'2.13.0+cpu' -> (2, 13, 0); what is not a number ends it."""
    return tuple(map(int, takewhile(str.isdigit, text.split('+')[0].split('.'))))


def check_python() -> Finding:
    """Python must be one that the pinned stack has packages for."""
    found = '.'.join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Finding('ok', 'python', found)
    return Finding('failure', 'python', f'{found}, but 3.11 to 3.13 is needed: make a new .venv')


def check_torch() -> Finding:
    """Torch must import."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding('failure', 'torch', f'does not import ({error}): {LIGHT}')
    return Finding('ok', 'torch', torch.__version__)


def check_torchvision() -> Finding:
    """Torchvision must take this torch, as its own metadata say, and its ops should load."""
    torch, vision = installed('torch'), installed('torchvision')
    if torch is None or vision is None:
        return Finding('failure', 'torchvision', f'torch or torchvision is missing: {LIGHT}')
    pair = f'torchvision {vision[1]} beside torch {torch[1]}'
    if wanted := refused_torch(torch[1]):
        public = torch[1].partition('+')[0]
        remedy = f'`pip install torch=={public} torchvision` finds the torchvision that fits'
        text = f'{pair} is a mismatch, it wants torch{wanted}: {remedy}'
        return Finding('failure', 'torchvision', text)
    if torchvision_guard.ops_load():
        return Finding('ok', 'torchvision', pair)
    remedy = 'install the torchvision build of the same kind (CPU or CUDA) as torch'
    try:
        torchvision_guard.guard_torchvision()
        import_module('torchvision')
    except (ImportError, RuntimeError, OSError) as error:
        return Finding('failure', 'torchvision', f'{pair} does not import ({error}): {remedy}')
    text = f'{pair}: its compiled ops do not load; transforms work, since the guard of ttl_mm '
    text += f'replaces them. To get rid of this warning, {remedy}'
    return Finding('warning', 'torchvision', text)


def refused_torch(version_of_torch: str) -> str:
    """What the installed torchvision asks of torch, if this version is not it; else nothing.

    Up to torchvision 0.28 it asked for one release of torch, since then for a range.
    """
    with suppress(ImportError):  # packaging, where nothing is installed yet
        from packaging.requirements import Requirement

        for asked in map(Requirement, requires('torchvision') or ()):
            if asked.name == 'torch':
                fits = asked.specifier.contains(version_of_torch, prereleases=True)
                return '' if fits else str(asked.specifier)
    return ''


def check_package(name: str) -> Finding:
    """An OpenMMLab package must be installed (if needed), new enough and importable."""
    possible, oldest = STACK[name]
    found = installed(*possible)
    level, remedy = ('failure', LIGHT) if name in NEEDED else ('warning', FULL)
    if found is None:
        what = 'missing' if name in NEEDED else 'not installed (only some users need it)'
        return Finding(level, name, f'{what}: {remedy}')
    if release(found[1]) < oldest:
        needed = '.'.join(map(str, oldest))
        return Finding(level, name, f'{found[1]} is older than {needed}: {remedy}')
    if name in NEEDED:
        try:
            import_module(name)
        except Exception as error:  # whatever an import raises is the finding
            return Finding('failure', name, f'{found[1]} does not import ({error}): {remedy}')
    return Finding('ok', name, f'{found[1]} ({found[0]})')


def check_families() -> Iterator[Finding]:
    """Two distributions that install the same files overwrite each other."""
    for name, (possible, _) in STACK.items():
        present = [d for d in possible if installed(d)]
        if len(present) > 1:
            remedy = f'`pip uninstall {" ".join(present)}`, then {LIGHT}'
            text = f'{" and ".join(present)} overwrite each other: {remedy}'
            yield Finding('failure', name, text)


def check_opencv() -> Finding:
    """One package must give the module cv2; what asks for another one works with it too."""
    present = [(name, found[1]) for name in OPENCV if (found := installed(name))]
    if not present:
        return Finding('failure', 'opencv', f'missing: {LIGHT}')
    text = ' and '.join(f'{version} ({name})' for name, version in present)
    if len(present) > 1:
        keep = '=='.join(present[0])
        text += ' overwrite each other: `pip uninstall -y '
        text += ' '.join(name for name, _ in present)
        return Finding('warning', 'opencv', f'{text}`, then `pip install {keep}`')
    try:
        import_module('cv2')
    except (ImportError, OSError) as error:  # such as libGL, which a server need not have
        remedy = '`pip uninstall -y opencv-python; pip install opencv-python-headless`'
        return Finding('failure', 'opencv', f'{text} does not import ({error}): {remedy}')
    if others := asked_in_vain(OPENCV):
        text += f'; `pip check` names {", ".join(others)}, whose `opencv-python` it stands in for'
    return Finding('ok', 'opencv', text)


def asked_in_vain(names: tuple[str, ...]) -> list[str]:
    """The installed packages that ask for one of ``names`` which is not installed."""
    missing = [name for name in names if not installed(name)]
    pattern = re.compile(rf'({"|".join(missing)})(?![\w.-])(?!.*extra *==)')
    return sorted(
        package.metadata['Name']
        for package in distributions()
        if any(map(pattern.match, package.requires or ()))
    )


def check_ops() -> Finding:
    """Detection needs mmcv's compiled ops; nothing else does."""
    try:
        import torch  # noqa: F401 the ops link against it

        import_module('mmcv._ext')
    except (ImportError, OSError) as error:
        text = f'not compiled ({error}): only detection needs them; {FULL}'
        return Finding('warning', 'mmcv ops', text)
    return Finding('ok', 'mmcv ops', 'compiled ops load')


def check_numpy() -> Finding:
    """Upstream mmcv breaks on NumPy 2 (OverflowError in adjust_hue)."""
    numpy = installed('numpy')
    if numpy is None:
        return Finding('failure', 'numpy', f'missing: {LIGHT}')
    if installed('mmcv', 'mmcv-lite') and release(numpy[1]) >= (2,):
        text = f'{numpy[1]} breaks upstream mmcv: `pip install "numpy<2"`'
        return Finding('failure', 'numpy', text)
    return Finding('ok', 'numpy', numpy[1])


def check_accelerator() -> Iterator[Finding]:
    """CUDA, and NCCL for several GPUs; a CPU is fine for small runs."""
    try:
        import torch
    except (ImportError, OSError):
        return
    if not torch.cuda.is_available():
        reason = 'this torch is a CPU build' if torch.version.cuda is None else 'no GPU is visible'
        yield Finding('warning', 'cuda', f'{reason}: the CPU trains, slowly')
        return
    names = ', '.join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    yield Finding('ok', 'cuda', f'{torch.version.cuda}: {names}')
    if torch.cuda.device_count() > 1 and not torch.distributed.is_nccl_available():
        yield Finding('failure', 'nccl', 'missing, needed for several GPUs: reinstall torch')


def check_disk(folder: str) -> Finding:
    """A ResNet-50 training checkpoint takes about 0.5 GB; a few must fit."""
    if not os.path.isdir(folder):
        return Finding('failure', 'disk', f'{folder} is not a folder: name one with --data')
    free = shutil.disk_usage(folder).free / 2**30
    if free < 5:
        text = f'{free:.1f} GB free in {folder}: checkpoints need about 5; free some space'
        return Finding('warning' if free > 1 else 'failure', 'disk', text)
    return Finding('ok', 'disk', f'{free:.0f} GB free in {folder}')


def check_workers() -> Iterator[Finding]:
    """Loader workers need cores, open files and shared memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
    yield Finding('ok', 'cores', f'{cores} usable: keep num_workers at or below this per machine')
    with suppress(ImportError):  # not a POSIX system
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit < 1024:
            text = f'{limit} open files allowed, workers need 1024: `ulimit -n 4096`'
            yield Finding('warning', 'files', text)
    if os.path.isdir('/dev/shm'):
        free = shutil.disk_usage('/dev/shm').free / 2**30
        if free < 1:
            text = f'{free:.2f} GB of shared memory: workers may die; enlarge it (--shm-size=8g)'
            yield Finding('warning', 'shm', text)
