"""One section per protocol: what was measured, on what, with which weights."""

from collections.abc import Mapping, Sequence

from ttl_mm.report.chart import Chart
from ttl_mm.report.figures import curves
from ttl_mm.report.page import Picture, Section, Table
from ttl_mm.report.results import Result, protocol_of, run_protocols
from ttl_mm.report.run import Run
from ttl_mm.report.sections import summary_section

NOTE = 'Values of this protocol only. They compare with each other where data and settings agree.'
#: logged quantities that are drawn
DRAWN = ('accuracy/top1', 'coco/bbox_mAP', 'coco/segm_mAP', 'voc/AP', 'voc/coco101_AP', 'loss')


def result_sections(results: Mapping[str, Sequence[Result]], runs: Sequence[Run]) -> list[Section]:
    """A section for every protocol of a result, by the name of its folder, or of a run."""
    protocols = dict.fromkeys(result.protocol for found in results.values() for result in found)
    protocols |= dict.fromkeys(sorted(p for run in runs for p in run_protocols(run)))
    sections = []
    for number, protocol in enumerate(protocols, 1):
        members = [run for run in runs if protocol in run_protocols(run)]
        pictures = [
            Picture(f'protocol{number}_{key.replace("/", "_")}', figure, f'{key} of these runs.')
            for key in DRAWN
            if (figure := _curves(members, key, protocol))
        ]
        summary = summary_section(members)
        tables = [t for t in (_table(results, protocol), *summary.tables) if t.rows]
        title = protocol[0].upper() + protocol[1:]
        sections.append(Section(title, NOTE, tables, pictures, summary.warnings))
    return sections


def _table(results: Mapping[str, Sequence[Result]], protocol: str) -> Table:
    rows = [(name, r) for name, found in results.items() for r in found if r.protocol == protocol]
    metrics = list(dict.fromkeys(metric for _, result in rows for metric in result.values))
    cells = [
        [name, r.weights, r.data, r.settings, *(r.values.get(metric, '–') for metric in metrics)]
        for name, r in rows
    ]
    header = ['found in', 'weights', 'data (with fingerprints)', 'settings', *metrics]
    return Table(header, cells, text_columns=4)


def _curves(runs: Sequence[Run], key: str, protocol: str) -> Chart | None:
    runs = [run for run in runs if key == 'loss' or protocol_of(run.config, key) == protocol]
    return curves(runs, key, key, markers=key != 'loss')
