"""The names of the classes of a YOLO dataset."""

import re
from pathlib import Path

from ttl_mm.errors import UserError
from ttl_mm.files.regular import TEXT, read_text


def yolo_names(root: Path) -> tuple[str, ...]:
    """Of ``classes.txt`` or ``obj.names``, one a line, or ``names`` of a YAML file.

    Raises:
        UserError: There is no such file, or it has no names.
    """
    for path in (*root.rglob('classes.txt'), *root.glob('*.names')):
        return tuple(line.strip() for line in read_text(path, TEXT).splitlines() if line.strip())
    for path in sorted([*root.glob('*.yaml'), *root.glob('*.yml')]):
        if names := names_in_yaml(read_text(path, TEXT)):
            return names
    raise UserError(
        f'{root} names no classes: put classes.txt there, one name a line, or data.yaml with names.'
    )


def names_in_yaml(text: str) -> tuple[str, ...]:
    r"""``names`` of a YAML text, as a list in one or several lines, or with numbers before them.

    Only this is read of the file, in the three ways in which tools write it.

    >>> names_in_yaml("nc: 2\nnames: ['cat', dog]"), names_in_yaml('names:\n 0: cat\n 1: dog')
    (('cat', 'dog'), ('cat', 'dog'))
    """
    found = re.search(r'^names:[ \t]*(.*(?:\n(?:[ \t-].*)?)*)', text, re.MULTILINE)
    if not found:
        return ()
    body = found[1]
    if body.lstrip().startswith('['):
        items = re.sub(r'\s+', ' ', body.partition(']')[0]).strip(' [').split(',')
    else:
        lines = (line.partition(' #')[0] for line in body.splitlines())
        items = [re.sub(r'^\s*(-|\d+\s*:)', '', line) for line in lines]
    names = (item.strip().strip('\'"') for item in items)
    return tuple(name for name in names if name)
