"""Reading runs and results from the folders and files that a user names.

Nothing found there is executed, the dumped config of a run included.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from ttl_mm.errors import UserError
from ttl_mm.files.plain_json import parse_json
from ttl_mm.files.regular import LOG, is_regular, open_regular, read_text
from ttl_mm.report.dumped_config import read_dumped
from ttl_mm.report.results import KNOWN, Result, detection_results, find_results, read_results
from ttl_mm.report.run import Run, is_training_line

WORK_DIR = 'a work dir of a run has TIMESTAMP/vis_data/scalars.json'


def load_inputs(paths: Sequence[str | Path]) -> tuple[list[Run], dict[str, list[Result]]]:
    """Runs, and for the name of every folder with results what was measured there.

    A path is a work dir, a folder with results at any depth, or a file with results.
    """
    unique = list(dict.fromkeys(Path(path).resolve() for path in paths))
    work_dirs = [path for path in unique if logs_of(path)]
    files: dict[Path, list[Result]] = {}
    for path in unique:
        found = {file: read_results(file) for file in find_results(path)}
        if not any(found.values()) and path not in work_dirs:
            raise UserError(f'{path} holds no log and no results: {WORK_DIR}; otherwise {KNOWN}.')
        files |= found
    results = [result for read in files.values() for result in read]
    folders = list(dict.fromkeys([*work_dirs, *(result.folder for result in results)]))
    names = dict(zip(folders, distinct_names(folders)))
    runs = [load_run(folder, names[folder]) for folder in work_dirs]
    named: dict[str, list[Result]] = {}
    for result in [*results, *(result for run in runs for result in detection_results(run))]:
        named.setdefault(names[result.folder], []).append(result)
    return runs, named


def load_run(folder: str | Path, name: str | None = None) -> Run:
    """Read every start of a run below its work dir; where they overlap, the later start wins.

    A start that only validated, without a training line, counts only where no start trained.
    """
    folder = Path(folder).resolve()
    starts = {log: records for log in logs_of(folder) if (records := _read_records(log))}
    trained = {log: r for log, r in starts.items() if any(map(is_training_line, r))} or starts
    trained = _in_order(trained)
    if not trained:
        raise UserError(f'{folder} holds no log: {WORK_DIR}.')
    merged: list[dict] = []
    for records in trained.values():
        resumed_at = _first_iteration(records)
        merged = [record for record in merged if record['iter'] < resumed_at] + records
    newest = list(trained)[-1]
    environment = _read_environment(newest.parent.parent)
    devices = re.search(r'GPU number: (\d+)', environment)
    return Run(
        name=name or folder.name,
        records=merged,
        starts=len(trained),
        modified=newest.stat().st_mtime,
        devices=int(devices[1]) if devices else 1,
        on_gpu='CUDA available: True' in environment,
        folder=folder,
        config=read_dumped(newest.parent.parent),
    )


def _in_order(starts: dict[Path, list[dict]]) -> dict[Path, list[dict]]:
    """The starts as they followed each other, by their names.

    If a clock was set back, a later start has an earlier name; but no start can go on behind an
    iteration that none before it has reached.
    """
    waiting, ordered, reached = dict(starts), {}, 0
    while waiting:
        fits = (log for log, r in waiting.items() if _first_iteration(r) <= reached + _interval(r))
        chosen = next(fits, None) or min(waiting, key=lambda log: _first_iteration(waiting[log]))
        ordered[chosen] = waiting.pop(chosen)
        reached = max(reached, max(record['iter'] for record in ordered[chosen]))
    return ordered


def _first_iteration(records: list[dict]) -> float:
    return next((r['iter'] for r in records if is_training_line(r)), records[0]['iter'])


def _interval(records: list[dict]) -> float:
    """Iterations between two lines of training; a run goes on at most so far behind its end."""
    at = [record['iter'] for record in records if is_training_line(record)]
    return max([b - a for a, b in pairwise(at)] or at or [0])


def logs_of(folder: Path) -> list[Path]:
    """Logs of all starts of a run, oldest first; those that hold nothing are left out."""
    logs = sorted(folder.glob('*/vis_data/scalars.json')) or [folder / 'vis_data' / 'scalars.json']
    return [log for log in logs if is_regular(log) and log.stat().st_size]


def _read_records(log: Path) -> list[dict]:
    """Lines of one start; one without an iteration belongs to the training line before it."""
    records: list[dict] = []
    try:
        lines = read_text(log, LOG, errors='replace').split('\n')
    except OSError as error:
        raise UserError(f'{log} cannot be read: {error.strerror}.') from error
    lines = lines[:-1] if lines[-1] == '' else lines
    for number, line in enumerate(lines, 1):
        try:
            record = parse_json(line, allow_nan=True)
            record.setdefault('iter', records[-1]['iter'] if records else 0)
            _check_counters(record)
        except (ValueError, AttributeError) as error:
            if number == len(lines):
                break  # still being written, or cut off by a kill
            raise UserError(
                f'line {number} of {log} is no line of a log: {line[:40]!r}; delete that line'
            ) from error
        records.append(record)
    return records


def _check_counters(record: dict) -> None:
    """Refuse a line whose counters are no plain numbers; a report computes with them."""
    for key in ('iter', 'step', 'epoch', 'threads'):
        value = record.get(key, 0)
        if type(value) not in (int, float) or not 0 <= value < 2**53:
            raise ValueError(f'{key} is {value!r}')


def distinct_names(folders: Sequence[Path]) -> list[str]:
    """Shortest ends of the paths, of one length for each group of equal names, that differ.

    Raises:
        UserError: Two paths are the same.
    """
    for number, folder in enumerate(folders):
        if folder in folders[:number]:
            raise UserError(f'{folder} is named twice: name it once.')
    names = [folder.name for folder in folders]
    depth = 1
    while len(set(names)) < len(names):
        depth += 1
        names = [
            '/'.join(folder.parts[-depth:]) if names.count(name) > 1 else name
            for folder, name in zip(folders, names)
        ]
    return names


def _read_environment(start: Path) -> str:
    """What mmengine writes about machine and processes at the head of its log; '' without one."""
    for log in sorted(start.glob('*.log')):
        with suppress(OSError), open_regular(log, LOG) as file:
            return file.read(20_000).decode('utf-8', 'replace')
    return ''
