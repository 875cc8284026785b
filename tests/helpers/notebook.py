"""A notebook in this process: what a kernel does, without the seconds of its imports."""

import sys
from pathlib import Path

import nbformat
from IPython.core.interactiveshell import InteractiveShell


def run_notebook(path: Path) -> int:
    """Run the code cells in the current folder; the first error is raised. For a fork."""
    sys.path.insert(0, '')  # as in a kernel
    shell = InteractiveShell.instance()
    cells = [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == 'code']
    for cell in cells:
        shell.run_cell(cell.source, store_history=False).raise_error()
    print(len(cells), 'cells ran')
    return 0
