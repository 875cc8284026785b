"""The page of ``ttl segment train``: tables, curves, and the worst images."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.picture_grid import Tile, fit, picture_grid
from ttl_mm.report import Picture, Section, Table, load_run
from ttl_mm.report.figures import curves
from ttl_mm.report.html import shown
from ttl_mm.report.page import write_page
from ttl_mm.tasks.segmentation.masked import Masked, Masks, colored, read_mask
from ttl_mm.tasks.segmentation.mean_iou import confusion

WORST, HEIGHT = 8, 200  # pictures, and their pixels


def write_segmenter_page(
    out: Path, masks: Masks, figures: dict[str, dict[str, Any]],
    found: Iterable[np.ndarray | None], lead: str,
) -> Path:  # fmt: skip
    """Write ``page/index.html`` into ``out``.

    Args:
        out: Folder of the job.
        masks: The data.
        figures: By start.
        found: What the network that is kept finds in the validation images.
        lead: The sentence below the title.
    """
    sections = [_tables(figures), _curves(out, figures), _worst(masks, found)]
    sections = [section for section in sections if section.tables or section.pictures]
    title = f'Segmentation into {len(masks.classes)} classes'
    return write_page(title, lead, sections, out / 'page', command='ttl segment train')


def _percent(value: float | None) -> str:
    return 'none' if value is None else f'{100 * value:.1f}'


def _tables(figures: dict[str, dict[str, Any]]) -> Section:
    rows = [[s, _percent(f['mIoU']), _percent(f['pixels'])] for s, f in figures.items()]
    names = next(iter(figures.values()))['classes']
    each = [[shown(n), *(_percent(f['classes'][n]) for f in figures.values())] for n in names]
    text = 'Intersection over union on the validation images after the last step.'
    return Section(
        'Intersection over union', text,
        [Table(['in %', 'mean', 'correct pixels'], rows), Table(['class', *figures], each)],
    )  # fmt: skip


def _curves(out: Path, figures: dict[str, Any]) -> Section:
    runs = [load_run(out / 'runs' / start, start) for start in figures]
    charts = {
        'miou': curves(runs, 'segmentation/mIoU', 'mIoU in %', markers=True),
        'loss': curves(runs, 'loss', 'loss'),
    }
    captions = {'miou': 'Mean IoU on the validation images.', 'loss': 'Training loss.'}
    pictures = [Picture(k, chart, captions[k]) for k, chart in charts.items() if chart is not None]
    return Section('Training', pictures=pictures)


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
    if not rows:
        return Section('Worst images')
    caption = 'Image, true classes, and what was found.'
    return Section(
        'Worst images', pictures=[Picture('worst', picture_grid(rows), caption, wide=True)]
    )
