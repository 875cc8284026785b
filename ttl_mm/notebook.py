"""``%load_ext ttl_mm.notebook``: commands in a notebook, without starting Python for each.

``%ttl zoo list`` does what ``ttl zoo list`` does in a shell, in the process of the notebook, which
has imported the packages already.
"""

import shlex
from typing import Any

from ttl_mm.cli import main
from ttl_mm.errors import UserError


def load_ipython_extension(shell: Any) -> None:
    """Add the line magic ``%ttl``; IPython calls this for ``%load_ext``."""
    shell.register_magic_function(run_line, 'line', 'ttl')


def run_line(line: str) -> None:
    """Run the arguments of ``ttl``; a command that fails ends the cell.

    Raises:
        UserError: Says the exit code; the command has printed the reason.
    """
    if code := main(shlex.split(line)):
        raise UserError(f'`ttl {line}` ended with exit code {code}.')
