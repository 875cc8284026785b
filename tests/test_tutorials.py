"""The tutorials run from the first cell to the last, and every command in them succeeds."""

import os
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from tests.helpers.paths import ROOT

TUTORIALS = sorted((ROOT / 'docs' / 'tutorials').glob('*.ipynb'))
#: IPython goes on after a command that fails; a tutorial must not
STRICT = """
def _checked(command, shell=get_ipython().system):
    shell(command)
    assert get_ipython().user_ns['_exit_code'] == 0, command

get_ipython().system = _checked
"""


@pytest.mark.parametrize('path', TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path, monkeypatch):
    bin_folder = tmp_path / 'bin'
    bin_folder.mkdir()
    ttl = bin_folder / 'ttl'  # that of this checkout
    ttl.write_text(f'#!/bin/sh\nexec {sys.executable} -m ttl_mm "$@"\n')
    ttl.chmod(0o755)
    tools = [str(bin_folder), os.path.dirname(sys.executable), os.environ['PATH']]
    monkeypatch.setenv('PATH', os.pathsep.join(tools))
    monkeypatch.setenv('PYTHONPATH', str(ROOT))
    monkeypatch.setenv('TTL_ZOO_OFFLINE', '1')
    monkeypatch.setenv('MPLBACKEND', 'agg')
    notebook = nbformat.read(path, as_version=4)
    code = [cell for cell in notebook.cells if cell.cell_type == 'code']
    notebook.cells.insert(0, nbformat.v4.new_code_cell(STRICT))
    folder = tmp_path / 'run'
    folder.mkdir()
    client = NotebookClient(notebook, timeout=560, resources={'metadata': {'path': str(folder)}})
    client.execute()
    assert all(cell.execution_count for cell in code)


def test_all_tutorials_are_there_without_outputs():
    """Outputs would grow old; the site runs the notebooks when it is published."""
    assert len(TUTORIALS) == 5
    for path in TUTORIALS:
        cells = nbformat.read(path, as_version=4).cells
        assert not any(cell.get('outputs') or cell.get('execution_count') for cell in cells)
