"""The page of ``ttl detect train``: tables of average precision, curves, and the worst images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.picture_grid import Tile, fit, picture_grid
from ttl_mm.report import Picture, Section, Table, load_run
from ttl_mm.report.axes import ITERATIONS
from ttl_mm.report.figures import curves
from ttl_mm.report.html import shown
from ttl_mm.report.page import write_page
from ttl_mm.tasks.detection.annotated import Annotated, Boxes
from ttl_mm.tasks.detection.ap_tables import (
    COCO_FIGURES,
    SEEN,
    image_results,
    mistakes,
    worst_images,
)
from ttl_mm.tasks.detection.detector import Found
from ttl_mm.tasks.detection.draw_boxes import Label, draw_boxes

WORST, HEIGHT = 8, 260  # pictures, and their pixels


def write_detector_page(
    out: Path, boxes: Boxes, figures: dict[str, dict[str, Any]], found: Sequence[Found], lead: str
) -> Path:
    """Write ``page/index.html`` into ``out``.

    Args:
        out: Folder of the job.
        boxes: The data.
        figures: By start, as :func:`ttl_mm.tasks.detection.ap_tables.measure` gives them.
        found: What the detector that is kept finds in the validation images.
        lead: The sentence below the title.
    """
    sections = [_overall(figures), _classes(figures), _curves(out, figures), _worst(boxes, found)]
    sections = [section for section in sections if section.tables or section.pictures]
    title = f'A detector for {len(boxes.classes)} classes'
    return write_page(title, lead, sections, out / 'page', command='ttl detect train')


def _percent(value: float | None) -> str:
    return 'none' if value is None else f'{100 * value:.1f}'


def _overall(figures: dict[str, dict[str, Any]]) -> Section:
    tables = []
    for kind in ('COCO boxes', 'COCO masks', 'VOC boxes'):
        having = {start: found[kind] for start, found in figures.items() if kind in found}
        names = COCO_FIGURES if kind.startswith('COCO') else COCO_FIGURES[:3]
        rows = [[start, *(_percent(f[name]) for name in names)] for start, f in having.items()]
        if rows:
            tables.append(Table([f'{kind}, in %', *names], rows))
    text = (
        'COCO: 101 points of recall, overlaps of 0.50 to 0.95. VOC: the 11 points of VOC2007 at '
        'the same overlaps. On the validation images, after the last step.'
    )
    return Section('Average precision', text, tables)


def _classes(figures: dict[str, dict[str, Any]]) -> Section:
    names = next(iter(figures.values()))['classes']
    header = ['class', 'objects']
    header += [f'{key}, {start}' for key in ('COCO AP', 'VOC AP50') for start in figures]
    rows = [
        [
            shown(name),
            str(names[name]['objects']),
            *(
                _percent(found['classes'][name][key])
                for key in ('COCO AP', 'VOC AP50')
                for found in figures.values()
            ),
        ]
        for name in names
    ]
    return Section('Classes', tables=[Table(header, rows)])


def _curves(out: Path, figures: dict[str, Any]) -> Section:
    runs = [load_run(out / 'runs' / start, start) for start in figures]
    charts = {
        'ap50': curves(runs, 'voc/coco101_AP50', 'box AP50', ITERATIONS, markers=True),
        'loss': curves(runs, 'loss', 'loss', ITERATIONS),
    }
    captions = {'ap50': 'Box AP50 on the validation images, by steps.', 'loss': 'Training loss.'}
    pictures = [Picture(k, chart, captions[k]) for k, chart in charts.items() if chart is not None]
    return Section('Training', pictures=pictures)


def _worst(boxes: Boxes, found: Sequence[Found]) -> Section:
    results = image_results(boxes.val, found, boxes.classes)
    rows = []
    for number in worst_images(results, WORST):
        image, count = boxes.val[number], mistakes(results[number])
        name = shown(image.path.name)
        pixels = decode_image(str(image.path))[..., ::-1]  # to RGB
        truth = draw_boxes(pixels, truth_labels(image, boxes.classes))
        said = draw_boxes(pixels, found_labels(found[number].above(SEEN), boxes.classes))
        words = f'{count} mistake{"s" if count > 1 else ""}'
        rows.append([Tile(fit(truth, HEIGHT), name), Tile(fit(said, HEIGHT), words)])
    if not rows:
        return Section('Worst images')
    caption = f'Left the truth, right what the detector finds with a score of {SEEN} or more.'
    return Section(
        'Worst images', pictures=[Picture('worst', picture_grid(rows), caption, wide=True)]
    )


def truth_labels(image: Annotated, classes: Sequence[str]) -> list[Label]:
    """The objects of an image, to be drawn."""
    return [Label(t.box, classes.index(t.name), shown(t.name)) for t in image.things]


def found_labels(found: Found, classes: Sequence[str]) -> list[Label]:
    """What was found in an image, to be drawn."""
    return [
        Label(box, int(number), f'{shown(classes[number])} {score:.2f}')
        for box, number, score in zip(found.boxes, found.labels, found.scores)
    ]
