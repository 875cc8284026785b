"""From the committed results to the tables and the figure of README.md."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scipy import stats

from projects.accuracy_per_hour.plan import (
    BASE,
    BUDGETS,
    CODING,
    CONTENDERS,
    DATA,
    FAST,
    IDEAS,
    LONG_TRIALS,
    MEMORY_BASE,
    MEMORY_IDEAS,
    OTHERS,
    SEARCH_BUDGET,
    SEEDS,
    SUPERVISED,
    Data,
    Idea,
    Job,
    Setting,
    is_full,
    is_plain,
    trials,
)
from tools.figures import fill, markdown
from ttl_mm.planning.view_growth import CURVE
from ttl_mm.report.chart import canvas, look_of

FIGURE = 'accuracy_per_hour.png'
Runs = list[dict[str, Any]]


def read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text()) if path.is_file() else None


def finals(data: Data, results: Path) -> dict[str, dict[int, Runs]]:
    """Runs judged on the test images, by entry and budget.

    The name of an entry is that of the method, and what it has of ours: Muon, images in memory.
    """
    found: dict[str, dict[int, Runs]] = {}
    for path in sorted((results / data.name / 'final').glob('*/*.json')):
        run = json.loads(path.read_text())
        found.setdefault(entry_of(run), {}).setdefault(run['budget'], []).append(run)
    return found


def entry_of(run: Mapping[str, Any]) -> str:
    """The name of what a run belongs to.

    >>> entry_of({'method': 'simclr', 'setting': {'lr': 0.1, 'size': 24}})
    'simclr, small views'
    """
    setting = run['setting']
    words = ['full-size views' if is_full(setting) else 'small views']
    words += ['Muon'] if 'optim.type' in setting else []
    words += ['in memory'] if 'memory' in setting else []
    return ', '.join([run['method'], *words])


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % confidence interval of the mean, by Student's t.

    >>> round(interval([1.0, 2.0, 3.0]), 3)
    2.484
    """
    if len(values) < 2:
        return None
    t = stats.t.ppf(0.975, len(values) - 1)
    return float(t * stdev(values) / len(values) ** 0.5)


def cell(runs: Runs, key: str) -> str:
    """The mean, its confidence interval, and the number of seeds."""
    values = [run[key] for run in runs if key in run]
    if not values:
        return ''
    half = interval(values)
    return f'{mean(values):.1f}' + (f' ± {half:.1f}' if half is not None else '')


def search_table(data: Data, results: Path) -> str:
    """KNN on the images held out, trial by trial; the best of each row is bold."""
    count = len(trials(data, FAST))
    rows = [['method', *(f'trial {i}' for i in range(1, count + 1))]]
    for method in (*CONTENDERS, *OTHERS):
        jobs = [
            Job(data.name, method, s, SEARCH_BUDGET, held_out=True) for s in trials(data, method)
        ]
        runs = [read(results / job.name) for job in jobs]
        scores = [run.get('knn', 0.0) if run else None for run in runs]
        best = max((score for score in scores if score is not None), default=None)
        if best is not None:
            rows.append([method, *(_bold(score, best) for score in scores)])
    return _markdown(rows)


def _bold(score: float | None, best: float) -> str:
    if score is None:
        return ''
    return f'**{score:.1f}**' if score == best else f'{score:.1f}'


def result_table(data: Data, results: Path) -> str:
    """Accuracy on the test images by budget, the best at the smallest budget first."""
    found = finals(data, results)
    budgets = [b for b in BUDGETS if any(b in runs for runs in found.values())]
    head = ['method', *(f'kNN, {b} s' for b in budgets), *(f'linear, {b} s' for b in budgets)]
    rows = [[*head, f'epochs in {budgets[0]} s', 'megapixels', 'seeds']] if budgets else [head]
    if not budgets:
        return _markdown(rows)
    first = budgets[0]
    known = [name for name in found if first in found[name]]
    for name in sorted(known, key=lambda n: -mean(run['knn'] for run in found[n][first])):
        runs = found[name]
        cells = [cell(runs.get(b, []), key) for key in ('knn', 'linear') for b in budgets]
        some = runs[first][0]
        seeds = ', '.join(str(len(runs[b])) for b in budgets if b in runs)
        pixels = f'{some["pixels_forward"] / 1e6:.0f}'
        rows.append([name, *cells, f'{some["epochs"]:.1f}', pixels, seeds])
    return _markdown(rows)


def lead_table(results: Path, plain: bool) -> str:
    """Ours, with the best kNN, against the best rival at every budget.

    Args:
        results: Where the runs are.
        plain: Rivals with nothing of ours but the small views, as people run them; or else all
            that they were given, our optimizer and images in memory included.
    """
    rows = [['data', 'budget', 'ours', 'best rival', 'lead in kNN', 'lead in linear', 'intervals']]
    for data in DATA.values():
        found = finals(data, results)
        for budget in BUDGETS:
            runs = {name: of[budget] for name, of in found.items() if budget in of}
            own = {n: r for n, r in runs.items() if r[0]['method'] in (FAST, CODING)}
            rivals = {
                n: r
                for n, r in runs.items()
                if r[0]['method'] not in (FAST, CODING, 'paper', SUPERVISED)
                and (is_plain(r[0]['setting']) or not plain)
            }
            if not own or not rivals:
                continue
            ours, best = (max(of, key=lambda n, of=of: _mean(of[n], 'knn')) for of in (own, rivals))
            linear = max(_mean(r, 'linear') for r in rivals.values())
            lead = _mean(own[ours], 'knn') - _mean(rivals[best], 'knn')
            of_linear = _mean(own[ours], 'linear') - linear
            rows.append([
                data.name, f'{budget} s', ours, best, f'{lead:+.1f}', f'{of_linear:+.1f}',
                _overlap(own[ours], rivals[best]),
            ])  # fmt: skip
    return _markdown(rows)


def _mean(runs: Runs, key: str) -> float:
    return mean(run[key] for run in runs)


def _overlap(ours: Runs, theirs: Runs) -> str:
    means = [mean(run['knn'] for run in runs) for runs in (ours, theirs)]
    halves = [interval([run['knn'] for run in runs]) for runs in (ours, theirs)]
    if None in halves:
        return 'one seed'
    apart = means[0] - halves[0] > means[1] + halves[1]  # type: ignore[operator]
    return 'do not overlap' if apart else 'overlap'


def idea_table(results: Path, base: Setting, ideas: Mapping[str, list[Idea]]) -> str:
    """Each idea against the recipe without it, on the images held out; means over seeds."""
    runs = _of_seeds(results, FAST, base)
    rows = [['idea', 'kNN', 'against the recipe without it', 'seeds']]
    if not runs:
        return _markdown(rows)
    rows.append(['(none)', f'{mean(runs.values()):.1f}', '', str(len(runs))])
    found = []
    for idea, tries in ideas.items():
        for method, setting in tries:
            name = idea if method in (FAST, CODING) else f'{idea} ({method})'
            if scores := _of_seeds(results, method, setting):
                same = scores.keys() & runs.keys()
                gain = mean(scores[seed] - runs[seed] for seed in same)
                found.append((mean(scores.values()), gain, name, len(scores)))
    found.sort(reverse=True)
    rows += [[name, f'{knn:.1f}', f'{gain:+.1f}', str(n)] for knn, gain, name, n in found]
    return _markdown(rows)


def long_table(results: Path) -> str:
    """What was tried at the largest budget, on the images held out."""
    rows = [['method', 'rate', 'kNN', 'epochs']]
    for method, setting in LONG_TRIALS:
        job = Job('cifar10_mini', method, setting, BUDGETS[-1], held_out=True)
        if run := read(results / job.name):
            rate = setting.get('optim.matrix_rate')
            rates = f'{setting["lr"]}, of matrices {rate}' if rate else f'{setting["lr"]}'
            rows.append([entry_of(run), rates, f'{run["knn"]:.1f}', f'{run["epochs"]:.0f}'])
    return _markdown(rows)


def _of_seeds(results: Path, method: str, setting: Setting) -> dict[int, float]:
    """KNN by seed, 0 of runs that diverged, on the images held out."""
    jobs = [
        Job('cifar10_mini', method, setting, SEARCH_BUDGET, seed, held_out=True) for seed in SEEDS
    ]
    runs = {job.seed: read(results / job.name) for job in jobs}
    return {seed: run.get('knn', 0.0) for seed, run in runs.items() if run}


def compared_budgets(found: Mapping[str, Mapping[int, Runs]]) -> list[int]:
    """Those at which one of ours and a rival were measured: a single curve compares nothing."""
    own: set[int] = set()
    rivals: set[int] = set()
    for runs in found.values():
        for budget, of in runs.items():
            (own if of[0]['method'] in (FAST, CODING) else rivals).add(budget)
    return sorted(own & rivals)


def draw(results: Path, path: Path) -> None:
    """KNN against seconds of training, of the first data set that has runs."""
    shown = [data for data in DATA.values() if finals(data, results)]
    if not shown:
        return
    data = shown[0]
    found = finals(data, results)
    compared = compared_budgets(found)
    with canvas(6.4, 4.2) as (figure, axes):
        for index, (name, runs) in enumerate(sorted(found.items())):
            budgets = [b for b in compared if b in runs]
            if not budgets:
                continue
            middle = [mean(run['knn'] for run in runs[b]) for b in budgets]
            halves = [interval([run['knn'] for run in runs[b]]) or 0.0 for b in budgets]
            axes.errorbar(
                budgets, middle, halves, label=name, marker='o', markersize=3, capsize=2,
                **look_of(index),
            )  # fmt: skip
        axes.set_xscale('log')
        axes.set_xticks(BUDGETS, [str(b) for b in BUDGETS])
        axes.set_xticks([], minor=True)
        axes.set_xlabel('seconds of training on one core')
        axes.set_ylabel(f'kNN top-1 in %, {data.name}')
        axes.legend(ncols=2)
    figure.savefig(path, dpi=150, metadata={'Software': None})


def generated(results: Path) -> dict[str, str]:
    """What stands between the marks of README.md, by mark."""
    tables: Mapping[str, Any] = {'search': search_table, 'result': result_table}
    found = {
        f'{k}-{d.name}': table(d, results) for k, table in tables.items() for d in DATA.values()
    }
    drawn = any(finals(data, results) for data in DATA.values())
    figure = f'![kNN against seconds of training]({FIGURE})' if drawn else 'No run yet.'
    leads = {'lead-plain': lead_table(results, True), 'lead-all': lead_table(results, False)}
    ideas = {'ideas': idea_table(results, BASE, IDEAS)}
    ideas['ideas-in-memory'] = idea_table(results, MEMORY_BASE, MEMORY_IDEAS)
    ideas['long-trials'] = long_table(results)
    return {**found, **leads, 'figure': figure, **ideas}


def small_views_curve(results: Path) -> dict[str, list[float]]:
    """What small views gain over full-size ones at each data set and budget, by steps at full size.

    Means over the methods and seeds that have both, with SGD at the same rate in the search, and at
    the best rate in the end; see :mod:`ttl_mm.planning.view_growth`.
    """
    points = []
    for data in DATA.values():
        for budget in (SEARCH_BUDGET, *BUDGETS):
            found = [
                (full['iterations'], small['knn'] - full['knn'])
                for full, small in _pairs(data, budget, results)
            ]
            if found:
                steps, gains = zip(*found)
                points.append((round(mean(steps)), round(mean(gains), 2)))
    points.sort()
    return {'steps': [step for step, _ in points], 'gain': [gain for _, gain in points]}


def _pairs(data: Data, budget: int, results: Path) -> Iterator[tuple[dict, dict]]:
    """Runs with full-size and with small views that differ in nothing else of ours."""
    if budget == SEARCH_BUDGET:
        for method in (*CONTENDERS, *OTHERS):
            full, _, small, *_ = trials(data, method)
            jobs = [Job(data.name, method, s, budget, held_out=True) for s in (full, small)]
            runs = [read(results / job.name) for job in jobs]
            if all(run and 'knn' in run for run in runs):
                yield runs[0], runs[1]  # type: ignore[misc]
        return
    entries = finals(data, results)
    full, small = (
        {run['seed']: run for run in entries.get(f'simclr, {views} views', {}).get(budget, [])}
        for views in ('full-size', 'small')
    )
    for seed in full.keys() & small.keys():
        yield full[seed], small[seed]


def write_pages(pages: Sequence[Path], results: Path) -> None:
    """Put the tables between their marks; the text around them stays."""
    tables = generated(results)
    for page in pages:
        fill(page, tables)
    draw(results, pages[0].with_name(FIGURE))
    CURVE.write_text(json.dumps(small_views_curve(results)) + '\n')


def _markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    if not body:
        return 'No run yet.'
    return markdown(head, body)
