"""Make or complete the virtual environment .venv: ``python3 requirements/install.py light|full``.

Runs on the standard library alone. A stamp inside .venv says which requirement files it was
completed with, so a second run does nothing, and an interrupted one is taken up again. mmcv wheels
are kept in a per-user cache, so the compiled ops are built once per machine.

Every file that pip takes from the registry must have a hash of requirements/locked, which lock.py
writes. Only a torch or torchvision that pip's own settings offer (an index of CUDA builds, a folder
of wheels) has none there: it is installed as it is, and a line says so.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / '.venv'
STAMP = VENV / 'ttl-setup.json'
PYTHON = VENV / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
REQUIREMENTS = ROOT / 'requirements'
LOCKED = REQUIREMENTS / 'locked'
OLDEST, NEWEST = (3, 11), (3, 13)  # the same in setup.cfg and in `ttl doctor`
NO_NETWORK = re.compile(
    r'NewConnectionError|NameResolutionError|name resolution|Network is unreachable'
    r'|Connection refused|Read timed out|ConnectTimeout|from versions: none',
    re.IGNORECASE,
)
NO_PACKAGE = re.compile(r'satisfies the requirement (\S+) \(from versions')  # and it lists some


CHECK_OPS = """
import sys, torch, mmcv._ext
from mmcv.ops import get_compiling_cuda_version
found, wanted = get_compiling_cuda_version(), sys.argv[1]
if wanted and found == 'not available':
    sys.exit(f'the ops were compiled without CUDA, and torch was made for CUDA {wanted}')
"""


class SetupError(Exception):
    """One sentence: what is in the way and how to remove it."""


def main(kind: str) -> int:
    """Bring .venv to ``kind``; print one line per step, one sentence on failure."""
    started = time.time()
    try:
        check_python()
        stamp = read_stamp()
        if 'full' in stamp:
            kind = 'full'  # a full environment stays full
        if stamp.get(kind) == fingerprint(kind):
            return 0
        make_venv()
        install(kind)
        STAMP.write_text(json.dumps({**stamp, kind: fingerprint(kind)}))
    except SetupError as error:
        print(f'setup: {error}', file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print('setup: interrupted; the same command takes it up again.', file=sys.stderr)
        return 130
    print(f'setup: {kind} environment ready in {time.time() - started:.0f} s')
    return 0


def check_python() -> None:
    """Refuse a Python that the pinned stack has no packages for."""
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        found = '.'.join(map(str, sys.version_info[:3]))
        raise SetupError(
            f'Python {found} found, 3.11 to 3.13 needed: run `make PYTHON=python3.11 ...`.'
        )


def fingerprint(kind: str) -> str:
    """A hash of everything that decides what gets installed."""
    files = [Path(__file__), ROOT / 'setup.cfg', *sorted(LOCKED.glob('*.txt'))]
    text = kind.encode() + b''.join(path.read_bytes() for path in files)
    return hashlib.sha256(text).hexdigest()


def read_stamp() -> dict:
    """What .venv was completed with; empty if it never was."""
    try:
        return json.loads(STAMP.read_text()) if venv_works() else {}
    except (OSError, ValueError):
        return {}


def venv_works() -> bool:
    """Whether .venv has a Python that runs and has pip."""
    try:
        check = subprocess.run([PYTHON, '-c', 'import pip'], capture_output=True)
    except OSError:
        return False
    return check.returncode == 0


def make_venv() -> None:
    """Create .venv, or make it again where an earlier attempt left half of one."""
    if venv_works():
        return
    if VENV.exists():
        print('setup: .venv is half-made (an interrupted run?): making it again')
        shutil.rmtree(VENV)
    run('creating .venv', [sys.executable, '-m', 'venv', VENV])


def install(kind: str) -> None:
    """Install the stack into .venv, the mmcv wheel of the right kind last."""
    install_packages(PYTHON, kind)
    wheel = mmcv_wheel(with_ops=kind == 'full')
    # pip takes two wheels of one version for the same thing, so replace by force
    pip(PYTHON, f'mmcv ({kind})', ['--no-deps', '--force-reinstall', wheel])
    pip(PYTHON, 'ttl_mm itself', ['--no-deps', '-e', ROOT])
    if kind == 'full':
        cuda = wheel.parent.name.partition('-cuda')[2]
        run('checking the compiled ops', [PYTHON, '-c', CHECK_OPS, cuda])


def install_packages(python: Path, kind: str) -> None:
    """All packages of a stack but mmcv."""
    pip(python, 'build tools', locked('build'))
    remove_other_opencv(python)
    for stack in ('light', 'full')[: 1 + (kind == 'full')]:
        pip(python, f'the packages of {stack}.txt', locked(stack))
    for name in ('torch', 'torchvision'):
        install_torch(python, name)


def locked(part: str) -> list:
    """Arguments of pip for a file of requirements/locked: all that is needed is in there."""
    return ['--no-deps', '--require-hashes', '-r', LOCKED / f'{part}.txt']


def pin(name: str, part: str) -> str:
    """``name==version`` as requirements/locked has it."""
    found = re.search(rf'^{name}==[^ ]+', (LOCKED / f'{part}.txt').read_text(), re.MULTILINE)
    return found[0] if found else name


def install_torch(python: Path, name: str) -> None:
    """Install torch or torchvision: the registry's, or a build that pip's own settings offer."""
    build = offered(python, pin(name, name))
    if '+' in build:
        # it brings its own libraries of CUDA, those of the lock are for the registry's build
        pip(python, f'{build} (of your own source of packages: no hash to check)', [build])
    else:
        pip(python, name, locked(name))


def offered(python: Path, requirement: str) -> str:
    """The ``name==version`` that pip would take; one with a local part such as +cu130 comes first.

    The registry has no versions with a local part.
    """
    command = [python, '-m', 'pip', 'install', '--dry-run', '--ignore-installed', '--no-deps']
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / 'report.json'
        what = f'looking for builds of {requirement}'
        run(what, [*command, '-q', '--report', report, requirement])
        found = json.loads(report.read_text())['install'][0]['metadata']
    return f'{found["name"]}=={found["version"]}'


def remove_other_opencv(python: Path) -> None:
    """Remove opencv-python, which version 0.1 installed, and what it shares files with.

    Whichever of them goes would take files of the other.
    """
    code = 'import importlib.metadata as m; print(*(d.name for d in m.distributions()))'
    if 'opencv-python' in capture([python, '-c', code]).split():
        both = ['opencv-python', 'opencv-python-headless']
        run('removing the other OpenCV', [python, '-m', 'pip', 'uninstall', '-q', '-y', *both])


def mmcv_wheel(with_ops: bool) -> Path:
    """The mmcv wheel from the per-user cache, built there first if need be.

    mmcv's build compiles its ops exactly when it can import torch: the light wheel is built in a
    throw-away environment without torch, the full one in .venv.
    """
    torch = capture([PYTHON, '-c', 'import torch; print(torch.__version__)'])
    mmcv = pin('onedl-mmcv', 'mmcv').replace('onedl-', '').replace('==', '')
    python = f'cp{sys.version_info[0]}{sys.version_info[1]}'
    cuda = cuda_of_torch() if with_ops else None
    kind = f'-cuda{cuda}' if cuda else ''
    name = f'{python}-torch{torch}-{mmcv}-'
    name = f'{name}ops{kind}' if with_ops else f'{python}-{mmcv}-light'
    folder = cache_dir() / 'wheels' / name
    if not kept_wheel(folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            built = Path(work) / 'wheel'
            if with_ops:
                check_compiler()
                # also where this machine has no GPU, such as the login node of a cluster
                force = {'FORCE_CUDA': '1'} if cuda else {}
                build_mmcv(PYTHON, built, "mmcv's compiled ops, once per machine (long)", **force)
            else:
                builder = Path(work) / 'builder'
                run('a build environment for mmcv', [sys.executable, '-m', 'venv', builder])
                python = builder / PYTHON.relative_to(VENV)
                pip(python, 'its build tools', locked('build'))
                build_mmcv(python, built, 'mmcv without compiled ops')
            if not kept_wheel(folder):  # another run may have finished first
                wheel = next(built.glob('*.whl'))
                (built / 'sha256').write_text(sha256_of(wheel))
                built.chmod(0o700)
                shutil.rmtree(folder, ignore_errors=True)
                os.replace(built, folder)
    return next(folder.glob('*.whl'))


def kept_wheel(folder: Path) -> bool:
    """Whether the folder has one wheel, unchanged since its build, and only we can write to it."""
    wheels = list(folder.glob('*.whl'))
    if len(wheels) != 1:
        return False
    status = folder.stat()
    if hasattr(os, 'getuid') and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        return False
    record = folder / 'sha256'
    return record.exists() and sha256_of(wheels[0]) == record.read_text()


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def build_mmcv(python: Path, target: Path, what: str, **environment: str) -> None:
    """Build the mmcv wheel with ``python`` into ``target``, never from pip's own cache.

    Debug information, which Python's own flags ask for, would double the time of the compiler.
    """
    flags = ['--no-cache-dir', '--no-build-isolation', '-q', *locked('mmcv')]
    command = [python, '-m', 'pip', 'wheel', '-w', target, *flags]
    run(what, command, CFLAGS=f'{os.environ.get("CFLAGS", "")} -g0', **environment)


def cuda_of_torch() -> str | None:
    """The version of CUDA that the ops are to be built for, None for a CPU.

    That which torch was made for, if its compiler is here. Without it the ops of a CPU are built: a
    torch with CUDA is what pip installs on machines without a GPU too.
    """
    cuda = capture([PYTHON, '-c', 'import torch; print(torch.version.cuda or "")'])
    home = os.environ.get('CUDA_HOME') or os.environ.get('CUDA_PATH')
    compiler = shutil.which('nvcc') or (home and shutil.which(str(Path(home) / 'bin' / 'nvcc')))
    if cuda and not compiler:
        print(
            f'setup: torch was made for CUDA {cuda}, and there is no nvcc here: the ops of mmcv '
            'are built for the CPU. For detection on GPUs load the module of CUDA, or set '
            f'CUDA_HOME, remove {STAMP} and run the command again.'
        )
        return None
    return cuda or None


def cache_dir() -> Path:
    """The per-user cache of this project."""
    return Path(os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache') / 'ttl_mm'


def check_compiler() -> None:
    """The compiled ops need a C++ compiler and Python's headers."""
    compiler = os.environ.get('CXX', 'c++')
    if shutil.which(compiler) is None:
        raise SetupError(
            f'no C++ compiler ({compiler}) found for the ops of mmcv: install one (on Debian '
            '`apt-get install g++`) and run the command again; `make demo` needs none.'
        )
    if not (Path(sysconfig.get_path('include')) / 'Python.h').exists():
        raise SetupError(
            "Python's headers are missing, which the ops of mmcv need: install them (on Debian "
            '`apt-get install python3-dev`) and run the command again.'
        )


def pip(python: Path, what: str, arguments: list) -> None:
    """Pip install; nothing is built in isolation, so the pinned torch is used."""
    run(what, [python, '-m', 'pip', 'install', '-q', '--no-build-isolation', *arguments])


def run(what: str, command: list, **environment: str) -> None:
    """Run one step with a sign of life; on failure keep its output and name the cause."""
    started = time.time()
    print(f'setup: {what} ...', flush=True)
    with tempfile.TemporaryFile('w+') as log:
        with subprocess.Popen(
            [str(c) for c in command],
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
        ) as process:
            while process.poll() is None:
                try:
                    process.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    print(f'setup: ... {(time.time() - started) / 60:.0f} min', flush=True)
        log.seek(0)
        output = log.read()
    if process.returncode == 0:
        return
    print(''.join(output.splitlines(keepends=True)[-25:]), file=sys.stderr)
    if NO_NETWORK.search(output):
        raise SetupError(
            f'{what}: the package registry did not answer; check the network or the proxy '
            'settings of pip and run the command again.'
        )
    if missing := NO_PACKAGE.search(output):
        python = '.'.join(map(str, sys.version_info[:2]))
        raise SetupError(
            f'{what}: the registry answers, but has no {missing[1]} for Python {python} on this '
            'machine: run `make PYTHON=python3.11 ...` with another Python, or ask for that '
            'package where you get packages from.'
        )
    raise SetupError(f'{what} failed (exit {process.returncode}); the reason is above.')


def capture(command: list) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == '__main__':
    if sys.argv[1:] not in (['light'], ['full']):
        sys.exit('usage: python3 requirements/install.py light|full')
    sys.exit(main(sys.argv[1]))
