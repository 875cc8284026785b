"""From the published logs to the tables and the figure of README.md."""

from pathlib import Path
from statistics import mean, stdev

from projects.efficiency_study.plan import Plan, is_ours
from tools.figures import fill, markdown
from ttl_mm.gauges.binomial_tail import overclustering_risk, smallest_safe_k
from ttl_mm.report.chart import canvas, look_of
from ttl_mm.report.logs import load_run
from ttl_mm.report.run import Run

METRIC = 'probe/knn_top1'
LINEAR = 'probe/linear_top1'
RANK = 'gauge/effective_rank'
SUPERVISED = 'supervised'
FIGURE = 'efficiency.png'
CLASSES, NEGATIVES, RISK = 10, 103, 1e-3


def curve(run: Run, key: str) -> dict[int, float]:
    """A measured quantity by the number of finished epochs."""
    return {r['epoch']: r[key] for r in run.records if key in r}


def final(run: Run, key: str) -> float:
    """The last value of a measured quantity."""
    return list(curve(run, key).values())[-1]


def published(folder: Path) -> dict[str, Run]:
    """The runs in a folder of results, by name."""
    found = {}
    for log in sorted(folder.glob('*/vis_data/scalars.json')):
        run = log.parent.parent
        found[run.name] = load_run(run)
    return found


def with_spread(values: list[float]) -> str:
    """The mean, with the standard deviation if there are several values."""
    spread = f' ± {stdev(values):.1f}' if len(values) > 1 else ''
    return f'{mean(values):.1f}{spread}'


def search_table(plan: Plan, results: Path) -> str:
    """Accuracies at the end of the search; the best of each row, which is used, is bold."""
    runs = published(results / 'search')
    rows = [['method', *(f'lr {rate}' for rate in plan.rates)]]
    for method in plan.methods:
        names = [f'{method}-lr{rate}' for rate in plan.rates]
        scores = [final(runs[name], METRIC) if name in runs else None for name in names]
        found = [score for score in scores if score is not None]
        if found:
            rows.append([method, *(_cell(score, max(found)) for score in scores)])
    return _markdown(rows)


def _cell(score: float | None, best: float) -> str:
    if score is None:
        return ''
    return f'**{score:.1f}**' if score == best else f'{score:.1f}'


def runs_of(plan: Plan, results: Path) -> dict[str, list[Run]]:
    """The finished runs of every method, one per seed."""
    runs = published(results / 'methods')
    names = {name: [f'{name}-seed{s}' for s in seeds] for name, seeds in plan.contenders().items()}
    return {name: [runs[n] for n in found if n in runs] for name, found in names.items()}


def methods_table(plan: Plan, results: Path) -> str:
    """Accuracy by epochs, linear and effective rank at the end: mean and spread over the seeds."""
    found = {method: runs for method, runs in runs_of(plan, results).items() if runs}
    epochs = sorted({epoch for runs in found.values() for epoch in curve(runs[0], METRIC)})
    rows = [['method', *(f'kNN, {e} e.' for e in epochs), 'linear', 'effective rank', 'seeds']]
    by_score = sorted(found, key=lambda m: -mean(final(run, METRIC) for run in found[m]))
    for method in by_score:
        runs = found[method]
        scores = [with_spread([curve(run, METRIC)[e] for run in runs]) for e in epochs]
        rows.append([method, *scores, *_ends(runs), str(len(runs))])
    picture = f'\n\n![kNN against epochs]({FIGURE})' if found else ''
    return _markdown(rows) + picture


def lead_table(plan: Plan, results: Path) -> str:
    """The best truncated triplet method against the best other one, after so many epochs."""
    found = {m: runs for m, runs in runs_of(plan, results).items() if runs and m != SUPERVISED}
    epochs = sorted({epoch for runs in found.values() for epoch in curve(runs[0], METRIC)})
    rows = [['epochs', 'best truncated triplet', 'best other', 'lead in points of kNN']]
    for epoch in epochs[1:]:  # the first is untrained
        scores = {m: mean(curve(run, METRIC)[epoch] for run in runs) for m, runs in found.items()}
        ours = [method for method in scores if is_ours(plan.methods[plan.method_of(method)])]
        others = [method for method in scores if method not in ours]
        if ours and others:
            best, other = (max(names, key=scores.__getitem__) for names in (ours, others))
            rows.append([str(epoch), best, other, f'{scores[best] - scores[other]:+.1f}'])
    return _markdown(rows)


def ablation_table(plan: Plan, results: Path) -> str:
    """Each change below the run of the search that is changed."""
    found, search = published(results / 'ablations'), published(results / 'search')
    runs: dict[str, Run] = {}
    for name, (method, _) in plan.ablations.items():
        tried = [search[n] for rate in plan.rates if (n := f'{method}-lr{rate}') in search]
        if name in found and tried:
            runs |= {method: max(tried, key=lambda run: final(run, METRIC)), name: found[name]}
    rows = [['model', 'kNN', 'effective rank']]
    rows += [
        [name, *(f'{final(run, key):.1f}' for key in (METRIC, RANK))] for name, run in runs.items()
    ]
    return _markdown(rows)


def planner_lines() -> str:
    """What the planner's bound says about the ranks of the study, under perfect features."""
    safe = smallest_safe_k(NEGATIVES, 1 / CLASSES, RISK)
    risks = {k: overclustering_risk(NEGATIVES, k, 1 / CLASSES) for k in (5, 10)}
    chances = ', '.join(f'{risk:.3f} at rank {k}' for k, risk in risks.items())
    return (
        f'With {CLASSES} equal classes and {NEGATIVES} negatives the smallest rank at which a '
        f'deputy is a false negative with a chance of at most {RISK} is {safe}; the chance is '
        f'{chances}.'
    )


def _ends(runs: list[Run]) -> list[str]:
    ends = []
    for key in (LINEAR, RANK):
        values = [final(run, key) for run in runs if curve(run, key)]
        ends.append(with_spread(values) if values else '')
    return ends


def draw(plan: Plan, results: Path, path: Path) -> None:
    """Accuracy against epochs, a band of one standard deviation around the mean of the seeds."""
    found = {method: runs for method, runs in runs_of(plan, results).items() if runs}
    if not found:
        return
    with canvas(6.4, 4.2) as (figure, axes):
        for index, (method, runs) in enumerate(found.items()):
            epochs = sorted(curve(runs[0], METRIC))
            scores = [[curve(run, METRIC)[epoch] for run in runs] for epoch in epochs]
            middle = [mean(s) for s in scores]
            axes.plot(epochs, middle, label=method, marker='o', markersize=3, **look_of(index))
            if len(runs) > 1:
                spread = [stdev(s) for s in scores]
                low = [m - s for m, s in zip(middle, spread, strict=True)]
                high = [m + s for m, s in zip(middle, spread, strict=True)]
                axes.fill_between(epochs, low, high, color=look_of(index)['color'], alpha=0.15)
        axes.set_xlabel('epochs')
        axes.set_ylabel('kNN top-1 in %')
        axes.legend(ncols=2)
    figure.savefig(path, dpi=150, metadata={'Software': None})


def generated(plan: Plan, results: Path) -> dict[str, str]:
    """What stands between the marks of README.md, by mark."""
    return {
        'search': search_table(plan, results),
        'methods': methods_table(plan, results),
        'lead': lead_table(plan, results),
        'ablations': ablation_table(plan, results),
        'planner': planner_lines(),
    }


def write_readme(plan: Plan, results: Path, folder: Path) -> None:
    """Put the tables into the page, whose text around the marks stays, and draw the figure."""
    fill(folder / 'README.md', generated(plan, results))
    draw(plan, results, folder / FIGURE)


def _markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    if not body:
        return 'No finished run is published yet.'
    return markdown(head, body)
