"""Every page names only files, commands and options that exist."""

import argparse
import json
import re
import shlex

import pytest

from tests.helpers.paths import ROOT
from ttl_mm.cli import build_parser

FILE = re.compile(
    r'(?<![\w/])(?:configs|docs|projects|requirements|tests|tools|ttl_mm)/[\w./-]+\.\w+'
)
SCRIPT = re.compile(r'(?<![\w/])((?:tools|projects)/[\w/-]+\.(?:py|sh))\b([^`|#\n]*)')
#: where options of scripts are that hand their arguments on
SHARED = (
    *(f'tools/{name}.py' for name in ('train', 'test', 'launcher_options')),
    'ttl_mm/arguments.py',
    'ttl_mm/cli/_options.py',
)
PATH_TYPES = {
    'images', 'input_file', 'input_folder', 'input_path', 'source', 'weights', 'contestant'
}  # fmt: skip
PAGES = [
    *(ROOT / name for name in ('README.md', 'CONTRIBUTING.md', 'SECURITY.md')),
    *sorted((ROOT / 'configs').rglob('README.md')),
    *sorted((ROOT / 'docs').glob('*.md')),
    *sorted((ROOT / 'docs' / 'tutorials').glob('*.ipynb')),
    *sorted((ROOT / 'projects').glob('*/README.md')),
]


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_paths_and_commands_of_a_page_exist(page):
    """Links, repository paths, and ``ttl`` commands with their options."""
    text = text_of(page)
    links = [link for link in re.findall(r'\]\(([^)#]+)', text) if '://' not in link]
    missing = [link for link in links if not (page.parent / link).exists()]
    roots = (ROOT, page.parent)
    missing += [p for p in FILE.findall(text) if not any((root / p).exists() for root in roots)]
    assert missing == []
    lines, inline = written_commands(text)
    for line in lines:
        any_paths(build_parser()).parse_args(shlex.split(line))
    for code in inline:
        assert unknown_words(code.split()) == [], code


@pytest.mark.parametrize('page', PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_options_of_scripts_and_targets_of_make_exist(page):
    text = re.sub(r'\s*\\\n\s*', ' ', text_of(page))
    assert unknown_options(text) == []
    targets = re.findall(r'^([a-z-]+):', (ROOT / 'Makefile').read_text(), re.MULTILINE)
    named = re.findall(r'(?:^|`|&& )make ([a-z-]+)', text, re.MULTILINE)
    assert [name for name in named if name not in targets] == []


def unknown_options(text: str) -> list[str]:
    """Options of ``tools/X.py`` and the like that no source of the script has."""
    unknown = []
    for script, rest in SCRIPT.findall(text):
        files = [path for path in (ROOT / script, *map(ROOT.joinpath, SHARED)) if path.exists()]
        source = ''.join(path.read_text() for path in files)
        options = re.findall(r'(?<!\S)--[a-z][\w-]*', rest)
        unknown += [f'{script} {option}' for option in options if f"'{option}'" not in source]
    return unknown


def test_unknown_options_of_scripts_are_noticed():
    assert unknown_options('python tools/train.py a.py --resume --work-dir x') == []
    assert unknown_options('`tools/dist_train.sh a.py 8 --workdir x`') == [
        'tools/dist_train.sh --workdir'
    ]


def text_of(page) -> str:
    """The page; of a notebook its cells, and commands for the shell without their marks."""
    if page.suffix != '.ipynb':
        return page.read_text()
    cells = json.loads(page.read_text())['cells']
    return re.sub(r'^[!%]', '', '\n\n'.join(''.join(cell['source']) for cell in cells), flags=re.M)


def test_the_readme_is_short_and_has_the_first_commands():
    """One screen or two: what is longer belongs on a page of its own."""
    text = (ROOT / 'README.md').read_text()
    assert len(text.splitlines()) <= 120
    for line in ('make demo ', 'make test ', 'ttl train photos '):
        assert re.search(rf'^{line}', text, re.MULTILINE), line


def test_the_walk_of_an_image_names_what_is_there():
    """Each function of docs/architecture.md is defined in a file of its row."""
    text = (ROOT / 'docs/architecture.md').read_text()
    section = text.split('## The walk of an image')[1].split('\n## ')[0]
    rows = [row.split('|')[2:4] for row in section.splitlines() if '`ttl_mm/' in row]
    assert len(rows) > 10
    for files, names in rows:
        first, *others = (ROOT / path for path in re.findall('`([^`]+)`', files))
        paths = [first, *(p if p.exists() else first.parent / p.name for p in others)]
        source = ''.join(path.read_text() for path in paths)
        for name in re.findall('`([^`]+)`', names):
            assert re.search(rf'(def|class) {name.split(".")[-1]}\b', source), name


def test_formulas_of_the_site_are_drawn_without_a_network(monkeypatch):
    pytest.importorskip('sphinx')
    monkeypatch.syspath_prepend(str(ROOT / 'docs'))
    from site_math import draw

    drawn = draw(r"\frac{1}{s} \lVert \mu_c - \mu_{c'} \rVert \ge 2")
    assert drawn.startswith('<svg role="img"')
    assert 'currentColor' in drawn
    assert not re.search('src=|<metadata', drawn)
    assert "html_math_renderer = 'drawn'" in (ROOT / 'docs/conf.py').read_text()


def written_commands(text: str) -> tuple[list[str], list[str]]:
    """Arguments of ``ttl``: in lines of fenced or indented blocks, and in code within sentences.

    Placeholders and dots become 1, which is a file name as well as a number.
    """
    text = re.sub(r'\s*\\\n\s*', ' ', text)
    lines = re.findall(r'^ *(?:\$ )?(?:ttl|[\w./ -]*-m ttl_mm) +(.*)', text, re.MULTILINE)
    inline = re.findall(r'`ttl ([^`]+)`', text)
    plain = [
        [re.sub(r'\b[A-Z_]+\b(?!/)|\.\.\.', '1', re.sub(r'[][]', '', line.split(' #')[0])).strip()
         for line in found]
        for found in (lines, inline)
    ]  # fmt: skip
    return plain[0], plain[1]


def test_commands_are_found_in_every_kind_of_block_and_unknown_words_noticed():
    page = """Ask `ttl doctor`, or `ttl plan --k 3`.

    ttl eval FILE [--data DIR] # a comment
    $ ttl zoo \\
        list
    torchrun --nproc-per-node 8 -m ttl_mm report RUN [RUN ...]

```bash
ttl export a.pth --to timm
```
"""
    lines = ['eval 1 --data 1', 'zoo list', 'report 1 1 1', 'export a.pth --to timm']
    assert written_commands(page) == (lines, ['doctor', 'plan --k 3'])
    assert sum(len(written_commands(text_of(page))[0]) for page in PAGES) > 20
    assert unknown_words(['zoo', 'fetch']) == ['fetch']
    assert unknown_words(['eval', 'x.pth', '--k', '3', '--neighbors', '3']) == ['--k']


def unknown_words(words: list[str]) -> list[str]:
    """Commands and options that the parser does not have, or only to say that they were renamed."""
    parser = build_parser()
    while words and (commands := subcommands(parser)):
        if words[0] not in commands:
            return words[:1]
        parser, words = commands[words[0]], words[1:]
    shown = [a for a in parser._actions if a.help != argparse.SUPPRESS]
    known = {option for action in shown for option in action.option_strings}
    return [word for word in words if word.startswith('--') and word not in known]


def any_paths(parser):
    """The parser, for which every file that a page names exists."""
    for action in parser._actions:
        if getattr(action.type, '__name__', '') in PATH_TYPES:
            action.type = str
    for command in subcommands(parser).values():
        any_paths(command)
    return parser


def subcommands(parser) -> dict:
    found = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return dict(found[0].choices) if found else {}
