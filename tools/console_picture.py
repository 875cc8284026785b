"""A picture of a console from what a terminal shows: ``tmux capture-pane -ep | ... OUT.svg``.

    tmux capture-pane -ep -t SESSION | python tools/console_picture.py docs/figures/console.svg

Colors stay, empty lines at the end go. The file needs no font from elsewhere.
"""

import argparse
import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text


def draw(captured: str, title: str) -> str:
    """The text of a terminal, with its escape sequences, as SVG."""
    text = Text.from_ansi(captured.rstrip())
    width = max(map(len, text.plain.splitlines()))
    console = Console(record=True, width=width, file=io.StringIO(), highlight=False)
    console.print(text)
    svg = console.export_svg(title=title, unique_id='console')
    svg = re.sub(r'@font-face \{.*?\}\s*', '', svg, flags=re.DOTALL)  # they would be fetched
    return svg.replace('Fira Code, monospace', 'monospace')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('out', type=Path)
    parser.add_argument('--title', default='ttl train photos')
    args = parser.parse_args()
    args.out.write_text(draw(sys.stdin.read(), args.title))


if __name__ == '__main__':
    main()
