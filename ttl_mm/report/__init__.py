"""The report: logs of pre-training and results of evaluations on one page."""

from collections.abc import Sequence
from pathlib import Path

from ttl_mm.report.figures import canvas, look_of
from ttl_mm.report.inputs import load_inputs
from ttl_mm.report.logs import load_run, load_runs
from ttl_mm.report.page import Picture, Section, Table, write_page
from ttl_mm.report.paper import paper_section
from ttl_mm.report.protocols import run_protocols
from ttl_mm.report.result_sections import result_sections
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

LEAD = 'Accuracy against what it costs, and what the network did meanwhile.'


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
        runs: Work dirs of mmengine runs, runs already loaded, and folders or files with results:
            figures.json of ``ttl eval`` and ``ttl reid eval``, results.json of ResultHook.
        out_dir: Made where it does not exist.
        extra_sections: Shown first; :func:`canvas` gives their figures the look of the report.
        title: Heading of the page; the names of runs and folders by default.
        lead: Sentence below it.
        target: Accuracy in percent for the time-to-target table; by default the highest whole
            number that every run with that accuracy reached.
        with_paper: Add the paper's published results as the last section.

    Returns:
        The path of the page.
    """
    read, results = load_inputs([run for run in runs if not isinstance(run, Run)])
    loaded = [run for run in runs if isinstance(run, Run)] + read
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
    return write_page(
        title or f'{"Learning efficiency" if pretraining else "Results"}: {", ".join(names)}',
        lead or (LEAD if pretraining else 'What was measured, by which protocol, on what.'),
        sections,
        out_dir,
    )


def pretraining_sections(runs: Sequence[Run], target: float | None) -> list[Section]:
    """What runs cost, how accurate they became, and how training went."""
    return [
        summary_section(runs),
        *accuracy_sections(runs, target),
        training_section(runs),
        gauges_section(runs),
    ]
