"""The README and the docs name only what exists."""

import re

import pytest

from tests.helpers.paths import ROOT
from ttl_mm.cli import build_parser

FILE = r'(?<![\w/])(?:configs|tools|projects|docs|requirements)/[\w./-]+\.\w+'
PAGES = [ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', *sorted((ROOT / 'docs').glob('*.md'))]


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_links_and_repository_paths_exist(page):
    text = page.read_text()
    links = [link for link in re.findall(r'\]\(([^)#]+)', text) if '://' not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    named = re.findall(
        r'(?<![\w/])(?:configs|tools|projects|docs|requirements)/[\w./-]+\.\w+', text
    )
    missing += [path for path in named if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_ttl_lines_parse(page):
    """Every `ttl ...` line in a bash block is understood by the parser."""
    parser = build_parser()
    for block in re.findall(r'```bash\n(.*?)```', page.read_text(), re.DOTALL):
        for line in block.replace('\\\n', ' ').splitlines():
            words = line.split(' #')[0].split()
            if words[:1] == ['ttl']:
                parser.parse_args(words[1:])
