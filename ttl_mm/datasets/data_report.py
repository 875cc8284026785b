"""The result of checking a dataset: counts, errors and notes, in one form for every task."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ttl_mm.errors import UserError

SHOWN = 3  # places per kind of problem


@dataclass
class DataReport:
    """What was found in a dataset. Errors and notes map the kind of a problem to its places.

    An error makes training or evaluation fail or its result meaningless; a note does not.
    """

    counts: dict[str, str] = field(default_factory=dict)  # part of the dataset -> its size in words
    errors: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    notes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def usable(self) -> bool:
        """Whether nothing was found that would stop a run."""
        return not self.errors

    def __str__(self) -> str:
        lines = [f'{part} ({count})' for part, count in self.counts.items()]
        for mark, problems in (('ERROR', self.errors), ('note', self.notes)):
            for kind, places in problems.items():
                lines.append(f'{mark}: {len(places):,} x {kind}: {shorten(places)}')
        return '\n'.join(lines)


def shorten(places: Sequence[str], total: int | None = None) -> str:
    """The first few of many strings, and how many more there are (of ``total``)."""
    total = len(places) if total is None else total
    more = f' and {total - SHOWN:,} more' if total > SHOWN else ''
    return ', '.join(places[:SHOWN]) + more


def require_usable(reports: Sequence[DataReport], where: str) -> None:
    """Raise a :class:`UserError` if a report has an error."""
    if errors := sum(len(report.errors) for report in reports):
        kinds = 'one kind' if errors == 1 else f'{errors} kinds'
        raise UserError(f'{where} cannot be used: correct {kinds} of error listed above.')
