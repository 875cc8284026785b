"""Tables of markdown, and their places in a page."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from ttl_mm.errors import UserError

DOCS = Path(__file__).resolve().parents[2] / 'docs/judge.md'


def markdown(header: Sequence[str], rows: Sequence[Sequence]) -> str:
    """A table in markdown."""
    lines = [header, ['---'] * len(header), *rows]
    return '\n'.join(f'| {" | ".join(map(str, line))} |' for line in lines)


def fill(page: Path, tables: Mapping[str, str]) -> None:
    """Put each table between ``<!-- NAME -->`` and ``<!-- /NAME -->``."""
    text = page.read_text()
    for name, table in tables.items():
        pattern = re.compile(rf'(<!-- {name} -->\n).*?(<!-- /{name} -->)', re.DOTALL)
        text, count = pattern.subn(lambda m, table=table: f'{m[1]}{table}\n{m[2]}', text)
        if count != 1:
            raise UserError(f'{page} must have <!-- {name} --> and <!-- /{name} --> once each.')
    page.write_text(text)
