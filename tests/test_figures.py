"""Every figure of a page is what its command printed: the marks, the readings, what is refused."""

import os
import time
from dataclasses import replace

import pytest

from tools import figures
from tools.figures import Reading, bare, fill, marks, problems, write
from ttl_mm.errors import UserError

COMMAND = 'python tools/bench.py --rounds 2'
READING = Reading(COMMAND, '2026-11-18', 'abc1234', '2 CPU cores', ('| a |', '|---|', '| 1.5 |'))


@pytest.fixture
def root(tmp_path):
    """A repository with one command, one reading and the page that shows it."""
    for folder in ('docs/readings', 'tools'):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / 'tools/bench.py').touch()
    write('speed', READING, tmp_path / 'docs/readings')
    page = tmp_path / 'docs/benchmarks.md'
    page.write_text(f'# Benchmarks\n\n<!-- speed: {COMMAND} -->\nx\n<!-- /speed -->\n')
    fill(page, {'speed': READING.text})
    return tmp_path


def change(page, old, new):
    text = page.read_text()
    assert old in text
    page.write_text(text.replace(old, new))


def test_the_pages_of_this_repository_show_what_was_read():
    assert list(problems()) == []
    assert len({mark.command for page in figures.pages() for mark in marks(page)}) > 25


def test_a_page_shows_the_lines_and_where_they_come_from(root):
    page = root / 'docs/benchmarks.md'
    assert list(problems(root)) == []
    assert '| 1.5 |\n\n*18 November 2026, commit abc1234, 2 CPU cores.*\n<!-- /speed -->' in (
        page.read_text()
    )
    assert [(mark.name, mark.command) for mark in marks(page)] == [('speed', COMMAND)]


@pytest.mark.parametrize(
    ('old', 'new', 'complaint'),
    [
        ('| 1.5 |', '| 1.4 |', 'not what docs/readings/speed.json says'),
        ('abc1234', 'abc1235', 'not what docs/readings/speed.json says'),
        ('--rounds 2', '--rounds 3', 'not what docs/readings/speed.json says'),
        ('tools/bench.py', 'tools/gone.py', 'there is no tools/gone.py'),
        (f': {COMMAND}', '', 'no command, no partner'),
        ('<!-- /speed -->', '', 'no command, no partner'),
        ('# Benchmarks', '# Benchmarks\n| 2.5 s |\n', '# Benchmarks: figures without a command'),
    ],
)
def test_what_deviates_is_named(root, old, new, complaint):
    change(root / 'docs/benchmarks.md', old, new)
    assert any(complaint in problem for problem in problems(root))


def test_a_reading_without_a_page_and_a_mark_without_a_reading_are_named(root):
    change(root / 'docs/benchmarks.md', 'speed', 'time')
    found = ' '.join(problems(root))
    assert 'time: nothing is known of these figures' in found
    assert 'docs/readings/speed.json: no page shows it' in found


def test_sections_need_a_source_for_numbers_with_units(tmp_path):
    page = tmp_path / 'page.md'
    page.write_text('# A\nIt takes 3.5 s.\n# B\nIt takes 3 s (`ttl plan`).\n# C\nTwo of 3.\n')
    assert bare(page) == ['# A']
    change(page, '# A\n', '# A\n<!-- settings -->\n')
    assert bare(page) == []
    change(page, 'Two of 3.', '| 3.5 s |\n\n`ttl plan`')
    assert bare(page) == ['# C']  # a table stands between marks


def test_a_reading_that_says_nothing_new_stays_unless_it_was_copied(monkeypatch):
    monkeypatch.setattr(figures, 'run', lambda command: READING.lines)
    assert figures.take(COMMAND, READING, 'def5678') is READING
    copied = replace(READING, copied=True, needs='photos')
    assert 'Copied by hand.' in copied.text
    taken = figures.take(COMMAND, copied, 'def5678')
    assert (taken.lines, taken.commit, taken.needs) == (READING.lines, 'def5678', 'photos')
    assert 'Copied' not in taken.text


def test_the_share_of_other_work_is_between_none_and_all():
    before, began = figures.other_work(), time.monotonic()
    sum(range(3_000_000))
    spent = (time.monotonic() - began) * os.cpu_count()
    assert -0.1 <= figures.other_work() - before <= spent + 0.1


def test_a_mark_is_filled_once_or_not_at_all(root):
    page = root / 'docs/benchmarks.md'
    with pytest.raises(UserError, match='once each'):
        fill(page, {'other': 'text'})
    page.write_text(page.read_text() * 2)
    with pytest.raises(UserError, match='once each'):
        fill(page, {'speed': 'text'})


def test_what_a_command_prints_is_a_table_or_a_block():
    assert figures.run("echo '| a |'; echo '|---|'") == ('| a |', '|---|')
    assert figures.run('echo 1.5 s') == ('```text', '1.5 s', '```')
    with pytest.raises(UserError, match='ended with 3'):
        figures.run('exit 3')
