"""The page of ``ttl segment train``: tables, curves, and the worst images."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
from ttl_mm.report.html import shown
from ttl_mm.tasks.segmentation.masked import Masked, Masks, colored, read_mask
from ttl_mm.tasks.segmentation.mean_iou import confusion

WORST, HEIGHT = 8, 200  # pictures, and their pixels
CURVES = (
    Curve('miou', 'segmentation/mIoU', 'mIoU in %', 'Mean IoU on the validation images.'),
    Curve('loss', 'loss', 'loss', 'Training loss.', measured=False),
)


def write_segmenter_page(
    out: Path, masks: Masks, runs: Sequence[Run], found: Iterable[np.ndarray | None], lead: str
) -> Path:  # fmt: skip
    """Write ``page/index.html`` into ``out``.

    Args:
        out: Folder of the job.
        masks: The data.
        runs: With their figures.
        found: What the network that is kept finds in the validation images.
        lead: The sentence below the title.
    """
    figures = {run.start: run.result for run in runs}
    sections = [_tables(figures), training_section(runs, CURVES), _worst(masks, found)]
    title = f'Segmentation into {len(masks.classes)} classes'
    return write_job_page(out, 'ttl segment train', title, lead, sections)


def _tables(figures: dict[str, dict[str, Any]]) -> Section:
    rows = [[s, percent(f['mIoU']), percent(f['pixels'])] for s, f in figures.items()]
    names = next(iter(figures.values()))['classes']
    each = [[shown(n), *(percent(f['classes'][n]) for f in figures.values())] for n in names]
    text = 'Intersection over union on the validation images after the last step.'
    return Section(
        'Intersection over union', text,
        [Table(['in %', 'mean', 'correct pixels'], rows), Table(['class', *figures], each)],
    )  # fmt: skip


def _worst(masks: Masks, found: Iterable[np.ndarray | None]) -> Section:
    judged: list[tuple[float, Masked, np.ndarray]] = []
    for pair, mask in zip(masks.val, found):
        if mask is None:
            continue
        truth = read_mask(pair.mask, masks.zero_is_none)
        counts = confusion(truth, mask, len(masks.classes))
        judged.append((np.diag(counts).sum() / max(1, counts.sum()), pair, mask))
        judged = sorted(judged, key=lambda entry: entry[0])[:WORST]
    rows = [
        [
            Tile(fit(decode_image(pair.path)[..., ::-1], HEIGHT), shown(pair.path.name)),
            Tile(fit(colored(read_mask(pair.mask, masks.zero_is_none)), HEIGHT), 'truth'),
            Tile(fit(colored(mask), HEIGHT), f'{share:.0%} of pixels'),
        ]
        for share, pair, mask in judged
    ]
    return pictures_section('Worst images', rows, 'Image, true classes, and what was found.')
