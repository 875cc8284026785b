"""The paper's tables, as printed. Published figures are never mixed with measured ones."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple


class Published(NamedTuple):
    """One printed cell."""

    table: str
    group: str
    method: str
    variant: str
    metric: str
    value: float
    epochs: int | None
    ours: bool
    note: str


@cache
def paper_tables() -> tuple[Published, ...]:
    """Every cell of every table of the paper."""
    text = files('ttl_mm.report').joinpath('data/paper_tables.csv').read_text('utf-8')
    return tuple(
        Published(
            table=row['table'],
            group=row['group'],
            method=row['method'].replace('_', ' '),
            variant=row['variant'],
            metric=row['metric'],
            value=float(row['value']),
            epochs=int(row['ssl_epochs']) if row['ssl_epochs'] else None,
            ours=row['ours'] == '1',
            note=row['note'],
        )
        for row in csv.DictReader(text.splitlines())
    )


def published(table: str, **columns) -> list[Published]:
    """Cells of one table ('T2_imagenet_linear', ...) whose columns have the given values."""
    return [
        cell
        for cell in paper_tables()
        if cell.table == table
        and all(getattr(cell, name) == value for name, value in columns.items())
    ]
