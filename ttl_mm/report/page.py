"""Sections of figures and tables to one HTML file without network, and PNG files beside it."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from ttl_mm.report.chart import Chart, chart_data, draw
from ttl_mm.report.html import as_html, as_script_data, resource, write_html

PNG_DPI = 150


@dataclass
class Picture:
    """A figure with the sentence below it."""

    name: str  # stem of the PNG file, unique in the page
    figure: Chart | Figure | np.ndarray  # curves; of matplotlib, as SVG; an RGB array, as PNG
    caption: str  # plain text
    wide: bool = False  # take the whole width of the page


@dataclass
class Table:
    """A table; the first ``text_columns`` are text, the others numbers; the first names the row."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1


@dataclass
class Section:
    """A heading, some plain text (a list gives several paragraphs), tables and figures."""

    title: str
    text: str | Sequence[str] = ''
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    warnings: Sequence[str] = ()


def write_page(
    title: str,
    lead: str,
    sections: Sequence[Section],
    out_dir: str | Path,
    command: str = 'ttl report',
    refresh: int = 0,
) -> Path:
    """Write ``index.html`` and a PNG per figure, and return the page's path.

    Args:
        title: heading.
        lead: the sentences below it.
        sections: what follows.
        out_dir: made where it does not exist.
        command: which the foot of the page names.
        refresh: seconds after which the page loads itself again; 0: never.
    """
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    footer = f'Written by {command}. This file needs no network; the figures lie beside it as PNG.'
    if refresh:
        footer += f' It follows a job and loads itself again every {refresh} seconds.'
    write_html(
        out_dir / 'index.html',
        resource('report.html'),
        title=as_html(title),
        lead=as_html(lead),
        contents='\n'.join(
            f'<a href="#{_anchor(s.title)}">{as_html(s.title)}</a>' for s in sections
        ),
        sections='\n'.join(_section(section, out_dir) for section in sections),
        footer=as_html(footer),
        refresh=str(refresh),
        script=resource('chart.js'),
    )
    return out_dir / 'index.html'


def _section(section: Section, out_dir: Path) -> str:
    paragraphs = [section.text] if isinstance(section.text, str) else section.text
    return '\n'.join(
        [
            f'<section id="{_anchor(section.title)}"><h2>{as_html(section.title)}</h2>',
            *(f'<p>{as_html(text)}</p>' for text in paragraphs if text),
            *(f'<p class="warning">{as_html(text)}</p>' for text in section.warnings),
            *map(_table, section.tables),
            '<div class="pictures">',
            *(_picture(picture, out_dir) for picture in section.pictures),
            '</div></section>',
        ]
    )


def _table(table: Table) -> str:
    header = ''.join(f'<th scope="col">{as_html(cell)}</th>' for cell in table.header)
    rows = ''
    for row in table.rows:
        rows += f'<tr><th scope="row">{as_html(row[0])}</th>'
        for column, (name, cell) in enumerate(zip(table.header[1:], row[1:]), 1):
            kind = ' class=text' if column < table.text_columns else ''
            rows += f'<td{kind} data-label="{as_html(name)}">{as_html(cell)}</td>'
        rows += '</tr>\n'
    return (
        f'<div class="table"><table><thead><tr>{header}</tr></thead>'
        f'<tbody>{rows}</tbody></table></div>'
    )


def _picture(picture: Picture, out_dir: Path) -> str:
    """The element, with its picture inside; the picture as PNG is written beside the page."""
    figure = picture.figure
    drawn = draw(figure) if isinstance(figure, Chart) else figure
    png = _png(drawn)
    (out_dir / f'{picture.name}.png').write_bytes(png)
    kind, content = 'image/png', png
    if isinstance(figure, Figure):
        kind, content = 'image/svg+xml', _svg(figure, picture.name)
    data = base64.b64encode(content).decode()
    caption = as_html(picture.caption)
    chart = f' id="{_anchor(picture.name)}" data-chart' if isinstance(figure, Chart) else ''
    values = ''
    if isinstance(figure, Chart):
        values = f'<script type="application/json">{as_script_data(chart_data(figure))}</script>'
    return (
        f'<figure{" class=wide" if picture.wide else ""}{chart}>'
        f'<img src="data:{kind};base64,{data}" alt="{caption}">'
        f'<figcaption>{caption}</figcaption>{values}</figure>'
    )


def _png(figure: Figure | np.ndarray) -> bytes:
    image = BytesIO()
    if isinstance(figure, np.ndarray):
        Image.fromarray(figure).save(image, format='png')
    else:
        figure.savefig(image, format='png', dpi=PNG_DPI)
    return image.getvalue()


def _svg(figure: Figure, name: str) -> bytes:
    image = BytesIO()
    with matplotlib.rc_context({'svg.hashsalt': name}):  # equal input, equal file
        figure.savefig(image, format='svg', metadata={'Date': None})
    return image.getvalue()


def _anchor(title: str) -> str:
    return re.sub(r'\W+', '-', title.lower()).strip('-')
