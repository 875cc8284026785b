"""The learning-efficiency report: logs of one or several runs to one page."""

from collections.abc import Sequence
from pathlib import Path

from ttl_mm.report.figures import canvas, look_of
from ttl_mm.report.logs import load_run, load_runs
from ttl_mm.report.page import Picture, Section, Table, write_page
from ttl_mm.report.paper import paper_section
from ttl_mm.report.run import Run
from ttl_mm.report.sections import (
    accuracy_sections,
    gauges_section,
    summary_section,
    training_section,
)

__all__ = [
    'Picture',
    'Run',
    'Section',
    'Table',
    'canvas',
    'load_run',
    'load_runs',
    'look_of',
    'write_page',
    'write_report',
]


def write_report(
    runs: Sequence[str | Path | Run],
    out_dir: str | Path,
    extra_sections: Sequence[Section] = (),
    title: str | None = None,
    lead: str | None = None,
    target: float | None = None,
    with_paper: bool = True,
) -> Path:
    """Write ``index.html`` (self-contained) and its figures as PNG into ``out_dir``.

    Args:
        runs: Work dirs of mmengine runs, or runs already loaded.
        out_dir: Made where it does not exist.
        extra_sections: Shown first; :func:`canvas` gives their figures the look of the report.
        title: Heading of the page; the names of the runs by default.
        lead: Sentence below it.
        target: Accuracy in percent for the time-to-target table; by default the highest whole
            number that every run with that accuracy reached.
        with_paper: Add the paper's published results as the last section.

    Returns:
        The path of the page.
    """
    loaded = [run for run in runs if isinstance(run, Run)]
    loaded += load_runs([run for run in runs if not isinstance(run, Run)])
    names = ', '.join(run.name for run in loaded)
    sections = [
        *extra_sections,
        summary_section(loaded),
        *accuracy_sections(loaded, target),
        training_section(loaded),
        gauges_section(loaded),
        *([paper_section()] if with_paper else []),
    ]
    sections = [s for s in sections if s.text or s.tables or s.pictures or s.warnings]
    return write_page(
        title or f'Learning efficiency: {names}',
        lead or 'Accuracy against what it costs, and what the network did meanwhile.',
        sections,
        out_dir,
    )
