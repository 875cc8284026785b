"""Sections of figures and tables to one HTML file without network, and PNG files beside it."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from PIL import Image

PNG_DPI = 150


@dataclass
class Picture:
    """A figure with the sentence below it."""

    name: str  # stem of the PNG file, unique in the page
    figure: Figure | np.ndarray  # of matplotlib, embedded as SVG, or an RGB array, as PNG
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
) -> Path:
    """Write ``index.html``, its foot naming the command, and a PNG per figure; returns its path."""
    out_dir = Path(out_dir)
    out_dir.mkdir(parents=True, exist_ok=True)
    for picture in (picture for section in sections for picture in section.pictures):
        _save_png(picture.figure, out_dir / f'{picture.name}.png')
    template = files('ttl_mm.report').joinpath('data/report.html').read_text('utf-8')
    parts = {
        'title': escape(title),
        'lead': escape(lead),
        'command': escape(command),
        'contents': '\n'.join(
            f'<a href="#{_anchor(s.title)}">{escape(s.title)}</a>' for s in sections
        ),
        'sections': '\n'.join(map(_section, sections)),
    }
    page = re.sub(r'\{\{(\w+)\}\}', lambda match: parts[match[1]], template)
    path = out_dir / 'index.html'
    path.write_text(page, 'utf-8')
    return path


def _section(section: Section) -> str:
    paragraphs = [section.text] if isinstance(section.text, str) else section.text
    return '\n'.join(
        [
            f'<section id="{_anchor(section.title)}"><h2>{escape(section.title)}</h2>',
            *(f'<p>{escape(text)}</p>' for text in paragraphs if text),
            *(f'<p class="warning">{escape(text)}</p>' for text in section.warnings),
            *map(_table, section.tables),
            '<div class="pictures">',
            *map(_picture, section.pictures),
            '</div></section>',
        ]
    )


def _table(table: Table) -> str:
    header = ''.join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    rows = ''
    for row in table.rows:
        rows += f'<tr><th scope="row">{escape(row[0])}</th>'
        for column, (name, cell) in enumerate(zip(table.header[1:], row[1:]), 1):
            kind = ' class=text' if column < table.text_columns else ''
            rows += f'<td{kind} data-label="{escape(name)}">{escape(cell)}</td>'
        rows += '</tr>\n'
    return (
        f'<div class="table"><table><thead><tr>{header}</tr></thead>'
        f'<tbody>{rows}</tbody></table></div>'
    )


def _picture(picture: Picture) -> str:
    image = BytesIO()
    if isinstance(picture.figure, np.ndarray):
        kind = 'image/png'
        _save_png(picture.figure, image)
    else:
        kind = 'image/svg+xml'
        with matplotlib.rc_context({'svg.hashsalt': picture.name}):  # equal input, equal file
            picture.figure.savefig(image, format='svg', metadata={'Date': None})
    data = base64.b64encode(image.getvalue()).decode()
    caption = escape(picture.caption)
    return (
        f'<figure{" class=wide" if picture.wide else ""}>'
        f'<img src="data:{kind};base64,{data}" alt="{caption}">'
        f'<figcaption>{caption}</figcaption></figure>'
    )


def _save_png(figure: Figure | np.ndarray, file: Path | BytesIO) -> None:
    if isinstance(figure, np.ndarray):
        Image.fromarray(figure).save(file, format='png')
    else:
        figure.savefig(file, format='png', dpi=PNG_DPI)


def _anchor(title: str) -> str:
    return re.sub(r'\W+', '-', title.lower()).strip('-')
