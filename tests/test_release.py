"""Version, date and upgrade notes of a release agree in all places."""

import argparse
import re

import pytest

from tests.helpers.paths import ROOT
from ttl_mm.cli import RENAMED, build_parser
from ttl_mm.cli._options import _Renamed
from ttl_mm.models import algorithm, head
from ttl_mm.version import __version__

CHANGELOG = (ROOT / 'CHANGELOG.md').read_text()
UPGRADING = CHANGELOG.split('### Upgrading')[1].split('\n###')[0]


def renamed(parser, path=()):
    """Options that only tell their new names, with the words of their command."""
    for action in parser._actions:
        if isinstance(action, _Renamed):
            yield ' '.join(path), action.option_strings[0], action.const
        elif isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield from renamed(command, (*path, name))


def test_the_version_is_that_of_the_changelog_or_newer():
    """Between releases the newest section is "Unreleased", and the version the one before."""
    newest = re.search(r'^## (\d\S*)(?: \((.+)\))?$', CHANGELOG, re.MULTILINE)
    assert newest[1] == __version__
    citation = (ROOT / 'CITATION.cff').read_text()
    assert f'\nversion: {__version__}\n' in citation
    day, month, year = re.search(r'\((\d+) (\w+) (\d+)\)', newest[0]).groups()
    months = 'January February March April May June July August September October November December'
    date = f'{year}-{months.split().index(month) + 1:02}-{int(day):02}'
    assert f'\ndate-released: {date}\n' in citation
    assert f'ttl_mm-{__version__}-py3-none-any.whl' in (ROOT / 'README.md').read_text()


@pytest.mark.parametrize(('command', 'old', 'new'), list(renamed(build_parser())))
def test_a_renamed_option_has_a_row_for_upgrading(command, old, new):
    name = new.strip('`').partition(' CHECKPOINT')[0]
    assert any(old in row and name in row for row in rows()), f'ttl {command} {old}'


def test_renamed_commands_and_options_of_the_model_have_a_row():
    for old, new in RENAMED.items():
        assert any(f'ttl {old}' in row and f'ttl {new}' in row for row in rows()), old
    for old in (*algorithm._OLD_OPTIONS, *head._OLD_OPTIONS):
        assert any(re.search(rf'`[^`]*\b{old}\b', row) for row in rows()), old


def rows() -> list[str]:
    return [row for row in UPGRADING.splitlines() if row.startswith('|')]
