"""What a report is about: runs and results, found in the folders and files that a user names."""

from collections.abc import Sequence
from pathlib import Path

from ttl_mm.errors import UserError
from ttl_mm.report.logs import distinct_names, load_run, logs_of
from ttl_mm.report.results import KNOWN, Result, detection_results, find_results, read_results
from ttl_mm.report.run import Run


def load_inputs(paths: Sequence[str | Path]) -> tuple[list[Run], dict[str, list[Result]]]:
    """Runs, and for the name of every folder with results what was measured there.

    Args:
        paths: Work dirs, folders with results at any depth, and files with results.
    """
    unique = list(dict.fromkeys(Path(path).resolve() for path in paths))
    work_dirs = [path for path in unique if logs_of(path)]
    files: dict[Path, list[Result]] = {}
    for path in unique:
        found = {file: read_results(file) for file in find_results(path)}
        if not any(found.values()) and path not in work_dirs:
            raise UserError(
                f'{path} holds no log and no results: a work dir of a run has '
                f'TIMESTAMP/vis_data/scalars.json; otherwise {KNOWN}.'
            )
        files |= found
    results = [result for read in files.values() for result in read]
    folders = list(dict.fromkeys([*work_dirs, *(result.folder for result in results)]))
    names = dict(zip(folders, distinct_names(folders)))
    runs = [load_run(folder, names[folder]) for folder in work_dirs]
    named: dict[str, list[Result]] = {}
    for result in [*results, *(result for run in runs for result in detection_results(run))]:
        named.setdefault(names[result.folder], []).append(result)
    return runs, named
