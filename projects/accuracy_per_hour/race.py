"""Accuracy against time, for every method on the same machine.

    OMP_NUM_THREADS=1 taskset -c 1 python projects/accuracy_per_hour/race.py run --data DIR
    python projects/accuracy_per_hour/race.py publish

``run`` does what ``results`` does not hold yet, one run at a time on one thread, the most
important first; it may be stopped at any time. DIR holds ``cifar10_mini`` and ``imagenette_mini``.
``publish`` writes the tables and the figure of README.md from ``results``.
"""

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from projects.accuracy_per_hour.build import count_images
from projects.accuracy_per_hour.measure import (
    seconds_per_iteration,
    seconds_to_read,
    train_and_evaluate,
)
from projects.accuracy_per_hour.plan import (
    BUDGETS,
    DATA,
    FAST,
    IDEAS,
    LONG_TRIALS,
    MEMORY,
    MEMORY_BASE,
    MEMORY_IDEAS,
    SEARCH_BUDGET,
    STAGES,
    Data,
    Job,
    Setting,
    is_full,
    is_plain,
    label_of,
    trials,
)
from projects.accuracy_per_hour.tables import write_pages
from ttl_mm.errors import UserError

HERE = Path(__file__).resolve().parent
RESULTS = HERE / 'results'
REFERENCE = ('simclr', {'lr': 0.3})  # full-size views: all times are multiples of its iteration
ROUNDS, COUNT = 7, 3


def read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.is_file() else {}


def write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + '\n')


def in_child(function: Callable, *arguments: Any) -> Any:
    """What a function returns, called in a process that shares this one's imports."""
    context = multiprocessing.get_context('fork')
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(function(*arguments)))
    child.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        raise UserError(f'{function.__name__} failed: its traceback stands above.') from None
    finally:
        child.join()


#: settings that do not change the time of an iteration
FREE = (
    'lr', 'size', 'warmup', 'start', 'head.temperature', 'head.deputy', 'head.deputy_temperature',
    'head.coding_rate', 'view.area', 'view.jitter', 'coding', 'turned', 'align', 'contrast',
    'direct', 'edges', 'edges_own', 'edges_other', 'edges_contrast', 'decay', 'average', 'fresh',
    'slow',
)  # fmt: skip


def cost_key(method: str, setting: Setting, size: int) -> str:
    """Settings that take the same time per iteration have the same key."""
    rest = {k: v for k, v in setting.items() if k not in FREE and k[:6] != 'optim.'}
    if 'optim.type' in setting:
        rest['optim.type'] = setting['optim.type']
    return '_'.join(filter(None, [method, f'size{size}', label_of(rest)]))


def sizes_of(job: Job) -> list[tuple[float, int]]:
    """(share of the run from which on, size) of the views."""
    size = job.setting.get('size', DATA[job.data].size)
    return [(0.0, size)] if isinstance(size, int) else [(start, s) for start, s in size]


def calibrate(jobs: list[Job], folder: Path, results: Path) -> None:
    """Measure what an iteration of these jobs costs, as multiples of the reference's."""
    for name in DATA:
        path = results / name / 'calibration.json'
        known = read(path)
        missing: dict[str, tuple[str, Setting]] = {}
        for job in (job for job in jobs if job.data == name):
            for _, size in sizes_of(job):
                key = cost_key(job.method, job.setting, size)
                if key not in known.get('ratios', {}):
                    missing[key] = job.method, {**job.setting, 'size': size}
        if not missing:
            continue
        variants = [REFERENCE, *missing.values()]
        print(f'calibrating {name}: {", ".join(missing)}', flush=True)
        reference, *others = in_child(seconds_per_iteration, name, variants, folder, ROUNDS, COUNT)
        known.setdefault('reference', label_of({'method': REFERENCE[0], **REFERENCE[1]}))
        known.setdefault('seconds_per_iteration', round(median(reference), 4))
        if 'read' not in known and any(s.get('memory') for _, s in missing.values()):
            read_one = in_child(seconds_to_read, name, folder)  # of a machine as busy as just now
            known['read'] = round(read_one / median(reference), 6)
        ratios = known.setdefault('ratios', {})
        for key, times in zip(missing, others):
            ratios[key] = round(median(t / r for t, r in zip(times, reference)), 4)
        write(path, known)


def iterations_for(job: Job, folder: Path, results: Path) -> int:
    """How many iterations the budget pays for, by the calibration."""
    known = read(results / job.data / 'calibration.json')
    starts = [start for start, _ in sizes_of(job)]
    shares = [end - start for start, end in zip(starts, [*starts[1:], 1.0])]
    per = sum(
        share * known['ratios'][cost_key(job.method, job.setting, size)]
        for share, (_, size) in zip(shares, sizes_of(job))
    )
    budget = job.budget / known['seconds_per_iteration']  # in iterations of the reference
    if job.setting.get('memory'):
        data = DATA[job.data]
        budget -= known['read'] * count_images(folder / data.name / data.train)
    return round(budget / per)


def do(job: Job, folder: Path, results: Path) -> None:
    """Do one run and keep what it measured."""
    iterations = iterations_for(job, folder, results)
    found = in_child(train_and_evaluate, job, folder, iterations, not job.held_out)
    found['date'] = datetime.now(UTC).strftime('%Y-%m-%d %H:%M')
    write(results / job.name, found)
    shown = ('iterations', 'epochs', 'cpu_seconds', 'knn', 'linear')
    print(job.name, *(f'{key} {found.get(key)}' for key in shown), flush=True)


def best_setting(
    data: Data, method: str, results: Path, among: Callable[[Setting], bool] = lambda _: True
) -> Setting | None:
    """The setting with the best kNN on the images held out; None while the search is not done."""
    scores = {}
    for setting in trials(data, method):
        path = results / Job(data.name, method, setting, SEARCH_BUDGET, held_out=True).name
        if not path.is_file():
            return None
        if among(setting):
            scores[label_of(setting)] = read(path).get('knn', 0.0), setting
    return max(scores.values(), key=lambda found: found[0])[1]


def setting_of(data: Data, method: str, kind: str, results: Path) -> Setting | None:
    """The setting of an entry of a :class:`Stage`; None while the search is not done."""
    if kind == 'all':
        best = best_setting(data, method, results)
        return best and {**best, **MEMORY}
    return best_setting(data, method, results, {'plain': is_plain, 'full': is_full}[kind])


def jobs_in_order(results: Path) -> Iterator[Job]:
    """All runs, the most important first; finals of a method follow when its search is done."""
    for stage in STAGES:
        for name, (method, _) in product(DATA, stage.entries):
            for setting in trials(DATA[name], method):
                yield Job(name, method, setting, SEARCH_BUDGET, held_out=True)
        for seed, budget, name, entry in product(stage.seeds, stage.budgets, DATA, stage.entries):
            if setting := setting_of(DATA[name], *entry, results):
                yield Job(name, entry[0], setting, budget, seed)
    for method, setting in LONG_TRIALS:
        yield Job('cifar10_mini', method, setting, BUDGETS[-1], held_out=True)
    base = [(FAST, MEMORY_BASE)]
    for tries in (base, *MEMORY_IDEAS.values(), *IDEAS.values()):
        for method, setting in tries:
            yield Job('cifar10_mini', method, setting, SEARCH_BUDGET, held_out=True)


def run(
    folder: Path, results: Path = RESULTS, only: list[str] | None = None, limit: int | None = None
) -> int:
    """Do what is missing, at most ``limit`` runs; how many were done."""
    torch.set_num_threads(1)
    done = 0
    while limit is None or done < limit:
        jobs = [j for j in jobs_in_order(results) if all(word in j.name for word in only or [])]
        todo = [job for job in jobs if not (results / job.name).is_file()]
        if not todo:
            break
        calibrate([job for job in todo[:10] if job.data == todo[0].data], folder, results)
        do(todo[0], folder, results)
        done += 1
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('what', choices=['run', 'publish'])
    parser.add_argument('--data', type=Path, default=Path('data'))
    parser.add_argument('--only', nargs='*', help='only runs whose names have all these words')
    parser.add_argument('--limit', type=int, help='stop after so many runs')
    args = parser.parse_args()
    if args.what == 'run':
        run(args.data, only=args.only, limit=args.limit)
    else:
        write_pages([HERE / 'README.md'], RESULTS)


if __name__ == '__main__':
    main()
