"""Run mmengine's own tests of Runner on ours: ``python tools/mmengine_runner_tests.py [SDIST]``.

They are in no wheel: the source archive of the installed version is downloaded into a temporary
folder, unless SDIST names one. Prints every test that fails, with the reason if the difference is
intended (docs/training.md has the same list). Exits with 1 if a test fails for another reason, or
passes although a difference is listed.
"""

import re
import subprocess
import sys
import tarfile
import tempfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# test -> what its failure says, and why it is intended
GUARDS = 'the guards are default hooks too'
INTENDED = {
    'test_build_dataloader': (
        'start_guarded',
        'a worker guards its own readers of files before a function of the config runs in it',
    ),
    'test_build_train_loop': (
        'only one of them can count',
        'an error in the config is a UserError: one line and exit code 2, no traceback',
    ),
    'test_checkpoint': (
        '!= 0.0001',
        'a learning rate that was changed in the config counts from the resume on',
    ),
    'test_custom_loop': (
        'does not know its exact position',
        'only a loop that knows its exact position can be resumed exactly',
    ),
    'test_train': (
        "no attribute 'dataloader_iterator'",
        'batches come from a loader that can seek, not from an endless iterator',
    ),
    'test_custom_hooks': (r'14 != 6', GUARDS),
    'test_default_hooks': (r'14 != 6', GUARDS),
    'test_register_hooks': (r'15 != 7', GUARDS),
    'test_get_hooks_info': (r'is not in logged hooks information', GUARDS),
}
# All runs of the tests share one work_dir, which ours refuses where it holds checkpoints; that
# check is off here, or hardly a test would get far.
CONFTEST = """
import mmengine.runner
from mmengine.registry import RUNNERS

import ttl_mm.engine.runner.resume
from ttl_mm.engine import Runner

mmengine.runner.Runner = RUNNERS.module_dict['Runner'] = Runner
ttl_mm.engine.runner.resume.checkpoint_files = lambda folder: []
"""


class Outcomes:
    """Plugin of pytest: the text of every failure."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.failed: dict[str, str] = {}

    def pytest_runtest_logreport(self, report) -> None:
        name = report.nodeid.rpartition('::')[2]
        if report.failed:
            self.failed[name] = str(report.longrepr)
        elif report.passed and report.when == 'call':
            self.passed.append(name)


def download(folder: Path) -> Path:
    """The source archive of the installed mmengine."""
    names = metadata.packages_distributions()['mmengine']
    pinned = f'{names[0]}=={metadata.version(names[0])}'
    command = [sys.executable, '-m', 'pip', 'download', '-q', '--no-deps', '--no-binary', names[0]]
    subprocess.run([*command, '-d', folder, pinned], check=True)
    return next(folder.glob('*.tar.gz'))


def run(archive: Path, folder: Path) -> Outcomes:
    """Run the tests of ``archive`` in ``folder``."""
    with tarfile.open(archive) as tar:
        member = next(m for m in tar if m.name.endswith('tests/test_runner/test_runner.py'))
        (folder / 'test_runner.py').write_bytes(tar.extractfile(member).read())
    (folder / 'conftest.py').write_text(CONFTEST)
    (folder / 'pytest.ini').write_text('[pytest]\n')
    outcomes = Outcomes()
    options = ['-q', '-p', 'no:cacheprovider', '--tb=short', '--no-summary', '--show-capture=no']
    pytest.main([*options, str(folder)], plugins=[outcomes])
    return outcomes


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        outcomes = run(Path(sys.argv[1]) if sys.argv[1:] else download(folder), folder)
    unexpected = 0
    for test, text in outcomes.failed.items():
        pattern, reason = INTENDED.get(test, ('$.', ''))
        if re.search(pattern, text):
            print(f'intended    {test}: {reason}')
        else:
            unexpected += 1
            print(f'unexpected  {test}:\n{text}')
    for test in INTENDED.keys() - outcomes.failed.keys():
        unexpected += 1
        print(f'unexpected  {test} passes or is gone: take it off the list')
    print(f'{len(outcomes.passed)} pass, {len(outcomes.failed)} fail, {unexpected} unexpected')
    return 1 if unexpected or not outcomes.passed else 0


if __name__ == '__main__':
    sys.exit(main())
