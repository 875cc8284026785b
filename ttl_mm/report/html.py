"""Writing a page: a template with its blanks filled in, in the style that all pages share."""

import json
import os
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from uuid import uuid4


def write_html(path: Path, template: str, **blanks: str) -> None:
    """Fill ``{{name}}`` in a template with HTML, and ``{{style}}`` with the common style.

    The file appears whole or not at all: a browser may read it at any time.
    """
    blanks['style'] = resource('style.css')
    page = re.sub(r'\{\{(\w+)\}\}', lambda blank: blanks[blank[1]], template)
    partial = path.with_name(f'{path.name}.{uuid4().hex}.partial')
    try:
        with open(partial, 'x', encoding='utf-8') as file:
            file.write(shown(page))
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def resource(name: str) -> str:
    """A file that all pages may use."""
    return files('ttl_mm.report').joinpath('data', name).read_text('utf-8')


def as_html(text: str) -> str:
    """Plain text, names of strangers included, as HTML."""
    return escape(shown(text))


def as_script_data(content) -> str:
    """JSON that can stand inside a script element: it holds no ``<``."""
    return json.dumps(content).replace('<', '\\u003c')


def shown(name: str) -> str:
    """A name that any page and terminal can show: bytes that are no text become escapes."""
    return re.sub('[\ud800-\udfff]', _escape, name)


def _escape(found: re.Match) -> str:
    code = ord(found[0])
    return f'\\x{code - 0xDC00:02x}' if 0xDC80 <= code <= 0xDCFF else f'\\u{code:04x}'
