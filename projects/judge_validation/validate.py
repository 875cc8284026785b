"""Do measures without labels follow accuracy? Short runs of many kinds, measured on the way.

    OMP_NUM_THREADS=1 python projects/judge_validation/validate.py run --data DIR
    OMP_NUM_THREADS=1 python projects/judge_validation/validate.py held_out --data DIR
    python projects/judge_validation/validate.py publish

``run`` does the runs that ``results`` does not hold yet and may be stopped at any time; DIR holds
``cifar10_mini``. ``held_out`` does those of ``held_out``, which only test forecasts. ``publish``
writes the tables of docs/judge.md from ``results``.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mmengine.registry import init_default_scope

from projects.judge_validation.measure import Labeled, train_and_measure
from projects.judge_validation.plan import Job, held_out_jobs, jobs
from projects.judge_validation.tables import (
    IN_STUDY,
    comparable,
    rate_table,
    read,
    regret_table,
    study_runs,
    table,
    try_table,
    verdict_table,
)
from tools.figures import fill

HERE = Path(__file__).resolve().parent
DOCS = HERE.parents[1] / 'docs/judge.md'
RESULTS = HERE / 'results'
HELD_OUT = HERE / 'held_out'
TRIED = HERE / 'try.json'


def run(data: Path, planned: Iterable[Job], results: Path) -> None:
    """Do the runs that ``results`` lacks."""
    results.mkdir(exist_ok=True)
    init_default_scope('mmpretrain')
    labeled = Labeled(data)
    for job in planned:
        path = results / f'{job.name}.json'
        if path.is_file():
            continue
        begun = time.monotonic()
        found = train_and_measure(job, data, labeled)
        path.write_text(json.dumps(found, indent=1) + '\n')
        last = found['rows'][-1]
        seconds = time.monotonic() - begun
        print(f'{job.name}: kNN {last["knn"]}, {seconds:.0f} s', flush=True)


def all_tables() -> dict[str, str]:
    """The tables of docs/judge.md by name, but for those of forecasts.py."""
    runs = comparable(read(RESULTS))
    return {
        'measures': table(runs),
        'study': table(study_runs(), IN_STUDY),
        'verdicts': verdict_table(runs),
        'rates': rate_table(read(RESULTS)),
        'regret': regret_table(runs),
        'try': try_table(json.loads(TRIED.read_text())),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', choices=['run', 'held_out', 'publish'])
    parser.add_argument('--data', type=Path, default=Path('data'))
    args = parser.parse_args()
    if args.what == 'run':
        run(args.data, jobs(), RESULTS)
    elif args.what == 'held_out':
        run(args.data, held_out_jobs(), HELD_OUT)
    else:
        fill(DOCS, all_tables())


if __name__ == '__main__':
    main()
