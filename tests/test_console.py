"""What a person sees of a run: lines, panel, and how often it is drawn."""

import logging
import time
from dataclasses import replace
from io import StringIO

from rich.console import Console

from ttl_mm import console
from ttl_mm.console import Screen, Status, WarningLines, sparkline, status_line, status_panel

FULL = Status(
    step=50, steps=200, epoch=3, epochs=10, seconds_left=200, images_per_s=311.4,
    losses=[3.0, 2.0, 1.0, -0.25], accuracies={'kNN top-1': 45.2}, rank=23.4, health='healthy',
    bad_images=2, checkpoint='epoch_2.pth',
)  # fmt: skip


def terminal(width=80):
    return Console(file=StringIO(), force_terminal=True, width=width, color_system=None)


def test_a_line_says_what_is_known_and_nothing_else():
    assert status_line(FULL) == (
        ' 25%  epoch 3/10  step 50/200  loss -0.2500  kNN top-1 45.2 %  rank 23.4 (healthy)  '
        '311 images/s  2 bad images  3 min 20 s left'
    )
    assert status_line(Status(step=1, steps=4)) == ' 25%  step 1/4'


def test_verdict_and_forecast_are_shown():
    judged = replace(
        FULL,
        verdict=('learning', 'an image keeps 12.0% of its neighbors'),
        forecast='kNN top-1 50.1 % (47.0 to 53.2) at the end, on track',
    )
    line = status_line(judged)
    assert '  learning  forecast: kNN top-1 50.1 % (47.0 to 53.2) at the end, on track  ' in line
    screen = terminal(120)
    screen.print(status_panel(judged))
    text = screen.file.getvalue()
    assert 'learning: an image keeps 12.0% of its neighbors' in text
    assert '50.1 % (47.0 to 53.2)' in text
    collapsed = replace(FULL, health='collapsed', verdict=('collapsed', 'all on a point'))
    assert status_line(collapsed).count('collapsed') == 1


def test_the_panel_shows_every_number_on_a_narrow_terminal_too():
    for width in (60, 120):
        screen = terminal(width)
        screen.print(status_panel(FULL))
        text = screen.file.getvalue()
        assert max(map(len, text.splitlines())) <= width
        for word in ('epoch 3/10', '25%', '3 min 20 s left', '█▆▄▁', '-0.2500', '45.2 %', '23.4',
                     'healthy', '311 images/s', 'bad images  2', 'epoch_2.pth'):  # fmt: skip
            assert word in text


def test_a_curve_of_many_values_keeps_its_shape_and_marks_nan():
    assert sparkline([*range(800)], width=8) == '▁▂▃▄▅▆▇█'
    assert sparkline([1.0, float('nan'), 2.0]) == '▁!█'
    assert sparkline([5.0, 5.0]) == '▁▁'


def test_a_slow_display_is_drawn_less_often(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, 'perf_counter', lambda: now)
    screen = Screen(terminal())

    def slow_panel(status):
        nonlocal now
        now += 0.02
        return ''

    monkeypatch.setattr(console, 'status_panel', slow_panel)
    drawn = 0
    while now < 100:
        now += 0.01  # an iteration
        if screen.is_due:
            screen.refresh(lambda: FULL)
            drawn += 1
    screen.close()
    assert 0.02 * drawn / 100 < 0.005


def test_without_a_terminal_nothing_is_drawn():
    assert not Screen(Console(file=StringIO())).is_due


def test_warnings_are_plain_lines(capsys):
    logger = logging.Logger('x')
    logger.addHandler(WarningLines())
    logger.info('details')
    logger.warning('bad image skipped: %s', 'a.jpg')
    logger.error('collapse')
    assert capsys.readouterr().out == 'warning: bad image skipped: a.jpg\nerror: collapse\n'
