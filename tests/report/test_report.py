import json
import re

import pytest
from matplotlib.figure import Figure

from tests.helpers.page import Page, page_of
from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.cli import main
from ttl_mm.report import Picture, Section, write_report


@pytest.fixture
def two_runs(tmp_path):
    return [write_start(tmp_path / name, '1', 1, 4 * EPOCH) for name in ('a', 'b')]


def test_the_page_needs_no_network_and_every_figure_lies_beside_it(two_runs, tmp_path):
    page = write_report(two_runs, tmp_path / 'out')
    source, shown = page.read_text('utf-8'), Page(page)
    assert 'As published in the paper' in shown.text
    assert len(shown.images) == len(list(page.parent.glob('*.png'))) > 5
    assert all(image['src'].startswith('data:image/') and image['alt'] for image in shown.images)
    assert not re.findall(r'(?:src|href)="(?!data:|#)', source)
    assert 'url(' not in source


def test_the_same_logs_give_the_same_page(two_runs, tmp_path):
    pages = [write_report(two_runs, tmp_path / name, with_paper=False) for name in 'cd']
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert 'published' not in Page(pages[0]).text  # only with the paper


def test_a_run_without_labels_has_a_report_of_the_rest(tmp_path):
    run = write_start(tmp_path / 'run', '1', 1, 20, probes=False)
    assert 'No accuracy was logged' in page_of(tmp_path, run).text
    assert (tmp_path / 'page' / 'loss.png').exists()


def test_a_run_that_was_judged_without_labels_has_a_verdict(tmp_path):
    run = write_start(tmp_path / 'run', '1', 1, 20, probes=False)
    (log,) = run.glob('*/vis_data/scalars.json')
    judged = [
        {'judge/view_invariance': kept, 'judge/view_invariance_error': 0.005, 'iter': step}
        for step, kept in ((0, 0.07), (20, 0.12))
    ]
    lines = log.read_text().splitlines()
    log.write_text('\n'.join([*lines, *map(json.dumps, judged)]) + '\n')
    text = page_of(tmp_path, run).text
    assert 'Judged without labels' in text
    assert 'an image keeps 12.0% of its neighbors under another view, 7.0% before' in text
    assert (tmp_path / 'page' / 'judge_view_invariance.png').exists()
    for strange in ('{"iter": 20, "health": 7, "loss": 1}', '{"iter": 20, "health": 2, "loss": 1}'):
        log.write_text('\n'.join([*lines, *map(json.dumps, judged), strange]) + '\n')
        text = page_of(tmp_path, run).text
    assert 'all projections lie on a point or a few poles' in text


@pytest.mark.parametrize(('first', 'count'), [(30, 3), (5, 8)])
def test_nan_in_the_loss_is_a_warning_on_the_page(tmp_path, first, count):
    """Also if the loss was never finite."""
    losses = dict.fromkeys(range(first, 41), float('nan'))
    run = write_start(tmp_path / 'run', '1', 1, 40, loss=lambda i: losses.get(i, 1.0))
    text = page_of(tmp_path, run).text
    assert f'run: the loss was not finite at {count} logged iterations, first at {first}.' in text


def test_names_of_runs_cannot_break_the_page(tmp_path):
    run = write_start(tmp_path / '<script>&', '1', 1, 40)
    assert '<script>&' in page_of(tmp_path, run).text


def test_extra_sections_come_first(two_runs, tmp_path):
    extra = Section('My neighbors', 'Hello.', pictures=[Picture('mine', Figure(), 'A picture.')])
    page = page_of(tmp_path, *two_runs, extra_sections=[extra])
    assert page.text.index('Hello.') < page.text.index('state')
    assert (tmp_path / 'page' / 'mine.png').exists()


def test_the_command_prints_the_page_or_names_a_folder_without_log(two_runs, tmp_path, capsys):
    out = tmp_path / 'out'
    command = ['report', '--out', str(out), '--no-paper']
    assert main([*command, *map(str, two_runs)]) == 0
    assert capsys.readouterr().out.strip() == str(out / 'index.html')
    assert main([*command, str(out)]) == 2
    assert 'holds no log' in capsys.readouterr().err
