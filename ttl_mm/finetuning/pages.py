"""What the pages of jobs have in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ttl_mm.datasets.picture_grid import Tile, picture_grid
from ttl_mm.finetuning.job import Run
from ttl_mm.report import Picture, Section, load_run
from ttl_mm.report.axes import Axis
from ttl_mm.report.figures import curves
from ttl_mm.report.page import write_page


class Curve(NamedTuple):
    """One logged quantity of all runs."""

    name: str  # of the picture
    key: str  # in the log
    label: str  # of the axis
    caption: str
    measured: bool = True  # now and then, at points that are shown
    axis: Axis | None = None  # epochs by default


def training_section(runs: Sequence[Run], shown: Sequence[Curve]) -> Section:
    """Curves of all runs; those of which no log has a value are left out."""
    loaded = [load_run(run.folder, run.folder.name) for run in runs]
    charts = [curves(loaded, c.key, c.label, c.axis, markers=c.measured) for c in shown]
    pictures = [
        Picture(curve.name, chart, curve.caption)
        for curve, chart in zip(shown, charts) if chart is not None
    ]  # fmt: skip
    return Section('Training', pictures=pictures)


def pictures_section(title: str, rows: Sequence[Sequence[Tile]], caption: str) -> Section:
    """Rows of images; an empty section without any."""
    if not rows:
        return Section(title)
    name = title.split()[0].lower()
    return Section(title, pictures=[Picture(name, picture_grid(rows), caption, wide=True)])


def write_job_page(
    out: Path, command: str, title: str, lead: str, sections: Sequence[Section]
) -> Path:
    """Write ``page/index.html`` into the folder of a job; empty sections are left out."""
    kept = [section for section in sections if section.tables or section.pictures]
    return write_page(title, lead, kept, out / 'page', command=command)


def percent(value: float | None) -> str:
    """A share as percent; None is none.

    >>> percent(0.256), percent(None)
    ('25.6', 'none')
    """
    return 'none' if value is None else f'{100 * value:.1f}'
