"""The tutorials run from the first cell to the last, each in a fork that has all packages.

So do the runs that their commands start, but for that of ``ttl train``: it is a new interpreter, as
for a user.
"""

import nbformat
import pytest

from tests.helpers import forked_training
from tests.helpers.forked import in_fork
from tests.helpers.notebook import run_notebook
from tests.helpers.paths import ROOT
from ttl_mm.engine.runner import processes
from ttl_mm.planning import trial

TUTORIALS = sorted((ROOT / 'docs' / 'tutorials').glob('*.ipynb'))
START = processes.start


def start(config, work_dir, *more) -> int:
    """The run of ``ttl train --out run`` as ever; its trial and other commands fork theirs."""
    is_new = work_dir.name == 'run' and config.name != 'trial.py'
    return (START if is_new else forked_training.start)(config, work_dir, *more)


@pytest.mark.parametrize('path', TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    monkeypatch.setenv('TTL_ZOO_OFFLINE', '1')
    monkeypatch.setenv('MPLBACKEND', 'agg')
    monkeypatch.setenv('IPYTHONDIR', str(tmp_path / 'ipython'))
    monkeypatch.setattr(processes, 'start', start)
    monkeypatch.setattr(trial, 'SECONDS', 0.0)  # the fewest steps
    (tmp_path / 'run').mkdir()
    ended = in_fork(lambda: run_notebook(path), tmp_path / 'run', seconds=560)
    assert ended.code == 0, ended.out[-3000:] + ended.err[-3000:]
    assert ended.out.endswith(' cells ran\n')


def test_all_tutorials_are_there_without_outputs():
    """Outputs would grow old; the site runs the notebooks when it is published."""
    assert len(TUTORIALS) == 5
    for path in TUTORIALS:
        cells = nbformat.read(path, as_version=4).cells
        assert not any(cell.get('outputs') or cell.get('execution_count') for cell in cells)


@pytest.mark.parametrize('path', TUTORIALS, ids=lambda path: path.stem)
def test_no_cell_starts_a_shell(path):
    """A notebook goes on after a line of the shell that failed; `%ttl` ends it, and is quicker."""
    cells = nbformat.read(path, as_version=4).cells
    assert not any(line.startswith('!') for cell in cells for line in cell.source.splitlines())
