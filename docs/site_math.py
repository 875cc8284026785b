"""Formulas of docstrings as drawings inside of the page: MathJax would be fetched from a server."""

import io
import re
from html import escape

from docutils import nodes
from matplotlib import rc_context
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import math_to_image
from sphinx.application import Sphinx
from sphinx.util import logging

_INK = '#010203'  # replaced by the color of the text
#: names that matplotlib does not know
_NAMES = {r'\ge': r'\geq', r'\le': r'\leq', r'\lVert': r'\Vert', r'\rVert': r'\Vert'}
log = logging.getLogger(__name__)


def draw(formula: str, size: float = 12) -> str:
    r"""A formula of TeX as SVG that stands on the line of the text.

    >>> draw(r'k \ge 2')[:40]
    '<svg role="img" aria-label="k \\ge 2" sty'
    """
    line = ' '.join(formula.split())
    known = re.sub(r'\\\w+', lambda found: _NAMES.get(found[0], found[0]), line)
    file, font = io.StringIO(), FontProperties(size=size)
    with rc_context({'mathtext.fontset': 'stix', 'svg.hashsalt': 'ttl_mm'}):
        depth = math_to_image(f'${known}$', file, font, format='svg', color=_INK)
    svg = re.sub(r'<metadata>.*?</metadata>', '', file.getvalue(), flags=re.DOTALL)
    svg = svg[svg.index('<svg') + 4 :].replace(_INK, 'currentColor')
    label = escape(formula, quote=True)
    return f'<svg role="img" aria-label="{label}" style="vertical-align: -{depth:.1f}pt"{svg}'


def visit(translator, node: nodes.Element) -> None:
    """Write the drawing; of a formula that cannot be drawn its source, and a warning."""
    tag = 'p' if isinstance(node, nodes.math_block) else 'span'
    try:
        drawn = draw(node.astext())
    except ValueError as error:
        log.warning('formula %s: %s', node.astext(), error, location=node)
        drawn = f'<code>{escape(node.astext())}</code>'
    translator.body.append(f'<{tag} class="formula">{drawn}</{tag}>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer('drawn', (visit, None), (visit, None))
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
