"""The report: logs of pre-training and results of evaluations on one page."""

from collections.abc import Sequence
from pathlib import Path

from ttl_mm.report.chart import canvas
from ttl_mm.report.logs import load_inputs, load_run
from ttl_mm.report.page import Picture, Section, Table, write_page
from ttl_mm.report.paper import paper_section
from ttl_mm.report.result_sections import result_sections
from ttl_mm.report.results import run_protocols
from ttl_mm.report.run import Run
from ttl_mm.report.sections import pretraining_sections

__all__ = ['Picture', 'Run', 'Section', 'Table', 'canvas', 'load_run', 'write_report']

LEAD = 'Accuracy against what it costs, and what the network did meanwhile.'
RESULTS_LEAD = 'What was measured, by which protocol, on what.'


def write_report(
    runs: Sequence[str | Path],
    out_dir: str | Path,
    extra_sections: Sequence[Section] = (),
    title: str | None = None,
    target: float | None = None,
    with_paper: bool = True,
    refresh: int = 0,
) -> Path:
    """Write ``index.html``, self-contained, and its figures as PNG; returns the page's path.

    Args:
        runs: Work dirs of mmengine runs, and folders or files with results of evaluations.
        out_dir: Made where it does not exist.
        extra_sections: Shown first; :func:`canvas` gives their figures the look of the report.
        title: Heading of the page; the names of runs and folders by default.
        target: Accuracy in percent for the time-to-target table; by default the highest whole
            number that every run with that accuracy reached.
        with_paper: Add the paper's published results as the last section.
        refresh: Seconds after which the page loads itself again; 0: never.
    """
    loaded, results = load_inputs(runs)
    evaluations = [run for run in loaded if run_protocols(run)]
    pretraining = [run for run in loaded if run not in evaluations]
    names = dict.fromkeys([*(run.name for run in loaded), *results])
    sections = [
        *extra_sections,
        *(pretraining_sections(pretraining, target) if pretraining else []),
        *result_sections(results, evaluations),
        *([paper_section()] if with_paper else []),
    ]
    sections = [s for s in sections if s.text or s.tables or s.pictures or s.warnings]
    subject, lead = ('Learning efficiency', LEAD) if pretraining else ('Results', RESULTS_LEAD)
    title = title or f'{subject}: {", ".join(names)}'
    return write_page(title, lead, sections, out_dir, refresh=refresh)
