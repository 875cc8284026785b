"""Pre-train every method at one setting and keep what was measured.

    python projects/efficiency_study/study.py run [--work-dir DIR] [--jobs N]
    python projects/efficiency_study/study.py publish [--work-dir DIR]

``run`` does the runs that are neither finished nor published, and may be stopped and started again
at any time: first the search for each method's learning rate, then the ablations, then all methods
seed by seed. ``publish`` copies what the finished runs measured to ``results/`` and
writes tables and figure from there.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from projects.efficiency_study.plan import PLAN, Job, Plan
from projects.efficiency_study.tables import METRIC, final, write_readme
from ttl_mm.errors import UserError
from ttl_mm.report.logs import load_run
from ttl_mm.report.run import Run, is_training_line

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = HERE / 'results'
MEASURED = ('probe/', 'gauge/')


def finished(job: Job, *folders: Path) -> Run | None:
    """The log of a run that measured its last epoch, from the first folder that has it."""
    for folder in folders:
        try:
            run = load_run(folder / job.name)
        except UserError:
            continue
        if any(METRIC in r and r.get('epoch') == job.epochs for r in run.records):
            return run
    return None


def best_rates(plan: Plan, *folders: Path) -> dict[str, float]:
    """The learning rate with which each method had the best kNN accuracy at the search's end."""
    scores: dict[str, dict[float, float]] = {}
    for job in plan.search():
        if (run := finished(job, *folders)) is None:
            raise UserError(f'{job.name} is not finished: complete the search with `study.py run`.')
        scores.setdefault(job.method, {})[job.lr] = final(run, METRIC)
    return {method: max(found, key=found.__getitem__) for method, found in scores.items()}


def train(job: Job, work_dir: Path, threads: int | None) -> None:
    """Start a run, or continue one that was stopped; its output goes to a file beside the log."""
    folder = work_dir / job.name
    folder.mkdir(parents=True, exist_ok=True)
    script = [sys.executable, str(ROOT / 'tools/train.py'), str(ROOT / job.config)]
    changes = [f'{key}={str(value).replace(" ", "")}' for key, value in job.changes().items()]
    limit = {'OMP_NUM_THREADS': str(threads)} if threads else {}
    with (folder / 'output.txt').open('a') as output:
        subprocess.run(
            [*script, '--work-dir', str(folder), '--resume', '--cfg-options', *changes],
            cwd=ROOT,
            env={**os.environ, **limit},
            stdout=output,
            stderr=output,
            check=True,
        )


def do(jobs: Iterable[Job], work_dir: Path, results: Path, parallel: int) -> None:
    """Do what is missing, ``parallel`` runs at a time with a core each."""
    missing = [job for job in jobs if finished(job, work_dir, results) is None]

    def start(job: Job) -> None:
        print(job.name, flush=True)
        train(job, work_dir, 1 if parallel > 1 else None)

    with ThreadPoolExecutor(parallel) as pool:
        for _ in pool.map(start, missing):
            pass


def run(plan: Plan, work_dir: Path, results: Path = RESULTS, parallel: int = 1) -> None:
    """Do the whole study, except for runs that are finished."""
    do(plan.search(), work_dir, results, parallel)
    best = best_rates(plan, work_dir, results)
    print(f'learning rates: {best}', flush=True)
    do(plan.ablations_with(best), work_dir, results, parallel)
    do(plan.methods_with(best), work_dir, results, parallel)


def publish(plan: Plan, work_dir: Path, results: Path = RESULTS) -> Iterator[str]:
    """Copy what the finished runs measured, and yield the names of those that are not finished."""
    jobs = list(plan.search())
    if all(finished(job, work_dir, results) for job in jobs):
        best = best_rates(plan, work_dir, results)
        jobs += [*plan.methods_with(best), *plan.ablations_with(best)]
    for job in jobs:
        found = finished(job, work_dir, results)
        if found is None:
            yield job.name
            continue
        lines = [json.dumps(record) for record in found.records if _is_kept(found, record)]
        log = results / job.name / 'vis_data' / 'scalars.json'
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text('\n'.join(lines) + '\n')


def _is_kept(run: Run, record: dict) -> bool:
    """Keep measurements, and the last training line of each epoch, which gives its length."""
    if is_training_line(record):
        return record['iter'] % run.iterations_per_epoch == 0
    return any(key.startswith(MEASURED) for key in record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', choices=['run', 'publish'])
    parser.add_argument('--work-dir', type=Path, default=ROOT / 'work_dirs/efficiency_study')
    parser.add_argument('--jobs', type=int, default=1, help='runs at the same time, a core each')
    args = parser.parse_args()
    if args.what == 'run':
        run(PLAN, args.work_dir, parallel=args.jobs)
        return
    for name in publish(PLAN, args.work_dir):
        print(f'{name} is not finished: left out')
    write_readme(PLAN, RESULTS, HERE)


if __name__ == '__main__':
    main()
