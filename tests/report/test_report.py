import re

import pytest
from matplotlib.figure import Figure

from tests.helpers.page import Page
from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.cli import main
from ttl_mm.report import Picture, Section, write_report


@pytest.fixture
def two_runs(tmp_path):
    return [write_start(tmp_path / name, '1', 1, 4 * EPOCH) for name in ('a', 'b')]


def page_of(tmp_path, *runs, **options):
    return Page(write_report(runs, tmp_path / 'out', with_paper=False, **options))


def test_the_page_needs_no_network_and_every_figure_lies_beside_it(two_runs, tmp_path):
    page = write_report(two_runs, tmp_path / 'out')
    source = page.read_text('utf-8')
    images = Page(page).images
    assert len(images) == len(list(page.parent.glob('*.png'))) > 5
    assert all(image['src'].startswith('data:image/') and image['alt'] for image in images)
    assert not re.findall(r'(?:src|href)="(?!data:|#)', source)
    assert 'url(' not in source


def test_the_same_logs_give_the_same_page(two_runs, tmp_path):
    pages = [
        write_report(two_runs, tmp_path / name, with_paper=False).read_bytes() for name in 'ab'
    ]
    assert pages[0] == pages[1]


def test_a_run_without_labels_has_a_report_of_the_rest(tmp_path):
    folder = write_start(tmp_path / 'run', '1', 1, 20, probes=False)
    page = page_of(tmp_path, folder)
    assert 'No accuracy was logged' in page.text
    assert (tmp_path / 'out' / 'loss.png').exists()


@pytest.mark.parametrize(('first', 'count'), [(30, 3), (5, 8)])
def test_nan_in_the_loss_is_a_warning_on_the_page(tmp_path, first, count):
    """Also if the loss was never finite."""
    losses = dict.fromkeys(range(first, 41), float('nan'))
    run = write_start(tmp_path / 'run', '1', 1, 40, loss=lambda i: losses.get(i, 1.0))
    text = page_of(tmp_path, run).text
    assert f'run: the loss was not finite at {count} logged iterations, first at {first}.' in text


def test_measured_and_published_results_never_share_a_figure(two_runs, tmp_path):
    assert 'As published in the paper' in Page(write_report(two_runs, tmp_path / 'with')).text
    assert 'published' not in page_of(tmp_path, *two_runs).text


def test_names_of_runs_cannot_break_the_page(tmp_path):
    folder = write_start(tmp_path / '<script>&', '1', 1, 40)
    page = page_of(tmp_path, folder)
    assert '<script>&' in page.text


def test_extra_sections_come_first(two_runs, tmp_path):
    extra = Section('My neighbors', 'Hello.', pictures=[Picture('mine', Figure(), 'A picture.')])
    page = page_of(tmp_path, *two_runs, extra_sections=[extra])
    assert page.text.index('Hello.') < page.text.index('state')
    assert (tmp_path / 'out' / 'mine.png').exists()


def test_the_command_prints_the_path_of_the_page(two_runs, tmp_path, capsys):
    out = tmp_path / 'out'
    assert main(['report', *map(str, two_runs), '--out', str(out), '--no-paper']) == 0
    assert capsys.readouterr().out.strip() == str(out / 'index.html')


def test_the_command_names_a_folder_without_log(tmp_path, capsys):
    assert main(['report', str(tmp_path)]) == 2
    assert 'holds no log' in capsys.readouterr().err
