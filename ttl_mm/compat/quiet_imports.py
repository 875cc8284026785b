"""Import packages that print or warn while they are imported, without what users cannot change."""

import io
import re
import warnings
from contextlib import redirect_stdout
from importlib import import_module

# mmpretrain and mmdet print this where a data platform of their maintainers is not installed, at
# a level (DEBUG) that print_log ignores; mmcv warns where its compiled ops are missing
NOISE = r'Could not import OneDL|Fail to import ``MultiScaleDeformableAttention``'


def import_quietly(*modules: str) -> None:
    """Import modules; lines and warnings that match :data:`NOISE` are left out."""
    printed = io.StringIO()
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.filterwarnings('ignore', message=NOISE)
        for module in modules:
            import_module(module)
    for line in printed.getvalue().splitlines():
        if not re.match(NOISE, line):
            print(line)
