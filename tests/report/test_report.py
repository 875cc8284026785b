import re

import pytest
from matplotlib.figure import Figure

from tests.helpers.page import Page
from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.cli import main
from ttl_mm.report import Picture, Section, load_runs, write_report
from ttl_mm.report.sections import common_goal, summary_section, time_to_target


@pytest.fixture
def two_runs(tmp_path):
    fast = write_start(tmp_path / 'fast', '1', 1, 4 * EPOCH, accuracy=lambda i: min(90, 2.0 * i))
    slow = write_start(tmp_path / 'slow', '1', 1, 4 * EPOCH, accuracy=lambda i: 1.0 * i)
    return [fast, slow]


def test_time_to_a_target_counts_from_the_first_measurement_that_reached_it(two_runs):
    table = time_to_target(load_runs(two_runs), 'probe/knn_top1', 70)
    epochs = {row[0]: row[1] for row in table.rows}
    images = {row[0]: row[2] for row in table.rows}
    assert epochs == {'fast': '2', 'slow': '4'}
    assert images == {'fast': '320', 'slow': '640'}


def test_an_untrained_network_reaches_no_target(tmp_path):
    folder = write_start(tmp_path / 'run', '1', 1, 2 * EPOCH)
    log = folder / '1' / 'vis_data' / 'scalars.json'
    log.write_text('{"probe/knn_top1": 99.0, "iter": 0, "epoch": 0, "step": 0}\n' + log.read_text())
    runs = load_runs([folder])
    assert common_goal(runs, 'probe/knn_top1') == 40
    assert time_to_target(runs, 'probe/knn_top1', 40).rows[0][1] == '2'
    assert summary_section(runs).tables[0].rows[0][-1] == '99.0 → 40.0 (99.0, 0)'


def test_a_target_that_was_missed_says_so(two_runs):
    table = time_to_target(load_runs(two_runs), 'probe/knn_top1', 85)
    assert [row[1] for row in table.rows] == ['3', 'not reached']


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
    page = Page(write_report([folder], tmp_path / 'out', with_paper=False))
    assert 'No accuracy was logged' in page.text
    assert (tmp_path / 'out' / 'loss.png').exists()


def test_nan_in_the_loss_is_a_warning_on_the_page(tmp_path):
    folder = write_start(
        tmp_path / 'run', '1', 1, 40, loss=lambda i: float('nan') if i >= 30 else 1.0
    )
    page = Page(write_report([folder], tmp_path / 'out', with_paper=False))
    assert 'run: the loss was not finite at 3 logged iterations, first at 30.' in page.text


def test_a_loss_that_was_never_finite_has_a_report(tmp_path):
    folder = write_start(tmp_path / 'run', '1', 1, 40, loss=lambda _: float('nan'))
    assert (
        'not finite at 8' in Page(write_report([folder], tmp_path / 'out', with_paper=False)).text
    )


def test_measured_and_published_results_never_share_a_figure(two_runs, tmp_path):
    page = Page(write_report(two_runs, tmp_path / 'out')).text
    without = Page(write_report(two_runs, tmp_path / 'out2', with_paper=False)).text
    assert 'As published in the paper' in page
    assert 'published' not in without


def test_names_of_runs_cannot_break_the_page(tmp_path):
    folder = write_start(tmp_path / '<script>&', '1', 1, 40)
    page = Page(write_report([folder], tmp_path / 'out', with_paper=False))
    assert '<script>&' in page.text


def test_extra_sections_come_first(two_runs, tmp_path):
    figure = Figure()
    extra = Section('My neighbors', 'Hello.', pictures=[Picture('mine', figure, 'A picture.')])
    page = Page(write_report(two_runs, tmp_path / 'out', extra_sections=[extra], with_paper=False))
    assert page.text.index('Hello.') < page.text.index('state')
    assert (tmp_path / 'out' / 'mine.png').exists()


def test_the_command_prints_the_path_of_the_page(two_runs, tmp_path, capsys):
    out = tmp_path / 'out'
    assert main(['report', *map(str, two_runs), '--out', str(out), '--no-paper']) == 0
    assert capsys.readouterr().out.strip() == str(out / 'index.html')


def test_the_command_names_a_folder_without_log(tmp_path, capsys):
    assert main(['report', str(tmp_path)]) == 2
    assert 'holds no log' in capsys.readouterr().err
