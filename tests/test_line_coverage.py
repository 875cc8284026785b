"""The lines that the notes of the suite call missed are those that coverage.py's tracer misses."""

import os
import sys
from contextlib import contextmanager
from importlib import import_module

import pytest
from coverage import Coverage

from tests.helpers import line_coverage
from tests.helpers.forked import fork, wait

SOURCE = '''"""A docstring."""
from __future__ import annotations

from contextlib import suppress
from functools import cache


@cache
def grade(
    points: int,
) -> str:
    """Over several lines."""
    if points < 0:
        raise ValueError(points)
    elif points > 90:
        return 'high'
    else:
        for _ in range(2):
            if points == 40:
                break
        else:
            points += 1
    match points:
        case 40:
            grade = 'forty'
        case _:
            grade = 'other'
    try:
        text = {40: 'x'}[points]
    except KeyError as error:
        text = str(error)
    finally:
        points = 0
    with suppress(ValueError):
        return (text +
            'ends')


class Empty:
    """Nothing else."""

    size = 3

    @property
    def unused(self):
        return self.size


async def never():
    global _
    while True:
        _ = [
            number for number in range(3)
        ]


if __name__ == '__main__':
    never()
grade(40)
'''


def imported(tmp_path, monkeypatch, name):
    (tmp_path / f'{name}.py').write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    return import_module(name), str(tmp_path / f'{name}.py')


@pytest.fixture
def noted(tmp_path, monkeypatch):
    """A module with notes, and its path."""
    monkeypatch.setattr(line_coverage, 'notes', {})
    monkeypatch.setattr(
        sys, 'meta_path', [line_coverage.NotingFinder('with_notes'), *sys.meta_path]
    )
    yield imported(tmp_path, monkeypatch, 'with_notes')
    del sys.modules['with_notes']


def missed(path):
    coverage = line_coverage.coverage_of(line_coverage.lines_run(), [path])
    with closed_in_the_end(coverage):
        return coverage.analysis2(path)[1:4]  # statements, excluded, missing


@contextmanager
def closed_in_the_end(coverage):
    """Python 3.13 warns of a database that was left open."""
    yield coverage
    coverage.get_data().close(force=True)


def test_the_same_lines_as_the_tracer(noted, tmp_path, monkeypatch):
    with closed_in_the_end(Coverage(data_file=None, include=[f'{tmp_path}/*'])) as tracer:
        with tracer.collect():
            traced, path = imported(tmp_path, monkeypatch, 'traced')
        statements, excluded, missing = tracer.analysis2(path)[1:4]
        assert missing
        assert missed(noted[1]) == (statements, excluded, missing)
        with tracer.collect():
            assert traced.grade(5) == noted[0].grade(5)
        assert tracer.analysis2(path)[3] == missed(noted[1])[2] != missing


def test_a_forked_process_counts_even_if_it_is_killed(noted):
    module, path = noted
    before = missed(path)[2]
    assert wait([fork(lambda: module.grade(95) and os.kill(os.getpid(), 9))]) == [-9]
    assert set(before) - set(missed(path)[2]) == {
        1 + SOURCE.splitlines().index("        return 'high'")
    }
