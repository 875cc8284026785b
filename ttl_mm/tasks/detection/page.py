"""The page of ``ttl detect train``: tables of average precision, curves, and the worst images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.picture_grid import Tile, fit
from ttl_mm.finetuning.job import Run
from ttl_mm.finetuning.pages import (
    Curve,
    percent,
    pictures_section,
    training_section,
    write_job_page,
)
from ttl_mm.report import Section, Table
from ttl_mm.report.axes import ITERATIONS
from ttl_mm.report.html import shown
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
CURVES = (
    Curve(
        'ap50', 'voc/coco101_AP50', 'box AP50', 'Box AP50 on the validation images, by steps.',
        axis=ITERATIONS,
    ),
    Curve('loss', 'loss', 'loss', 'Training loss.', measured=False, axis=ITERATIONS),
)  # fmt: skip


def write_detector_page(
    out: Path, boxes: Boxes, runs: Sequence[Run], found: Sequence[Found], lead: str
) -> Path:
    """Write ``page/index.html`` into ``out``.

    Args:
        out: Folder of the job.
        boxes: The data.
        runs: With figures as :func:`ttl_mm.tasks.detection.ap_tables.measure` gives them.
        found: What the detector that is kept finds in the validation images.
        lead: The sentence below the title.
    """
    figures = {run.start: run.result for run in runs}
    sections = [_overall(figures), _classes(figures), training_section(runs, CURVES),
                _worst(boxes, found)]  # fmt: skip
    title = f'A detector for {len(boxes.classes)} classes'
    return write_job_page(out, 'ttl detect train', title, lead, sections)


def _overall(figures: dict[str, dict[str, Any]]) -> Section:
    tables = []
    for kind in ('COCO boxes', 'COCO masks', 'VOC boxes'):
        having = {start: found[kind] for start, found in figures.items() if kind in found}
        names = COCO_FIGURES if kind.startswith('COCO') else COCO_FIGURES[:3]
        rows = [[start, *(percent(f[name]) for name in names)] for start, f in having.items()]
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
                percent(found['classes'][name][key])
                for key in ('COCO AP', 'VOC AP50')
                for found in figures.values()
            ),
        ]
        for name in names
    ]
    return Section('Classes', tables=[Table(header, rows)])


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
    caption = f'Left the truth, right what the detector finds with a score of {SEEN} or more.'
    return pictures_section('Worst images', rows, caption)


def truth_labels(image: Annotated, classes: Sequence[str]) -> list[Label]:
    """The objects of an image, to be drawn."""
    return [Label(t.box, classes.index(t.name), shown(t.name)) for t in image.things]


def found_labels(found: Found, classes: Sequence[str]) -> list[Label]:
    """What was found in an image, to be drawn."""
    return [
        Label(box, int(number), f'{shown(classes[number])} {score:.2f}')
        for box, number, score in zip(found.boxes, found.labels, found.scores)
    ]
