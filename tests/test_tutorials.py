"""The tutorials run from the first cell to the last, each in a fork that has all packages."""

import nbformat
import pytest

from tests.helpers.forked import in_fork
from tests.helpers.notebook import run_notebook
from tests.helpers.paths import ROOT

TUTORIALS = sorted((ROOT / 'docs' / 'tutorials').glob('*.ipynb'))


@pytest.mark.parametrize('path', TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    monkeypatch.setenv('TTL_ZOO_OFFLINE', '1')
    monkeypatch.setenv('MPLBACKEND', 'agg')
    monkeypatch.setenv('IPYTHONDIR', str(tmp_path / 'ipython'))
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
