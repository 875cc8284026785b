"""The curves of the report in a real browser."""

import json
import os
import re

import pytest
from playwright.sync_api import expect

from tests.helpers.browser import opened
from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.report import write_report
from ttl_mm.report.page import write_page

NAMES = ('<script>alert(1)<', 'quote "\' &amp; b', 'two\nlines $x$', os.fsdecode(b'caf\xe9'))
SHOWN = (*NAMES[:3], 'caf\\xe9')


@pytest.fixture(scope='module')
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp('runs')
    runs = [
        write_start(folder / name, '1', 1, 2 * EPOCH, loss=lambda i, n=n: n + i / 10)
        for n, name in enumerate(NAMES, 1)
    ]
    return write_report(runs, folder / 'page', with_paper=False, refresh=3600)


@pytest.mark.parametrize(('width', 'scheme'), [(1200, 'dark'), (400, 'light')])
def test_values_under_the_pointer_runs_to_switch_and_log_axes(browser, page, width, scheme):
    with opened(browser, page, width, color_scheme=scheme) as tab:
        chart = tab.locator('#loss')
        chart.scroll_into_view_if_needed()
        box = chart.locator('svg[tabindex]').bounding_box()
        tab.mouse.move(box['x'] + box['width'] - 13, box['y'] + 60)  # the right end: iteration 40
        values = [item.text_content() for item in chart.locator('.values div').all()]
        assert values == [f'{name}: {n}' for n, name in enumerate(SHOWN, 5)]
        assert chart.locator('.values').inner_text().startswith('epochs 2')
        assert tab.title() == f'Learning efficiency: {", ".join(SHOWN)}'.replace('\n', ' ')
        before = chart.locator('.curve').count()
        chart.get_by_role('button', name=NAMES[0]).click()
        assert (before, chart.locator('.curve').count()) == (4, 3)
        curve = chart.locator('.curve').first
        for button in chart.locator('ul button').all()[2:]:
            button.click()
        heights = [curve.get_attribute('d')]
        chart.get_by_role('button', name='log y').click()
        heights.append(curve.get_attribute('d'))
        linear, logarithmic = (
            [float(y) for _, y in re.findall(r'[ML]([\d.]+) ([\d.]+)', d)] for d in heights
        )
        assert linear[0] == logarithmic[0]
        assert linear[-1] == logarithmic[-1]
        assert logarithmic[3] < linear[3]  # a logarithm rises faster at first
        tab.reload()  # what was chosen stays
        assert tab.locator('#loss .curve').count() == 1
        assert tab.evaluate('document.documentElement.scrollWidth') <= width
        data = json.loads(tab.locator('#loss script').first.text_content())
        assert [line['name'] for line in data['lines']] == list(SHOWN)


def test_a_page_that_follows_a_job_loads_itself_again(browser, tmp_path):
    page = write_page('first', '', [], tmp_path, refresh=1)
    with opened(browser, page) as tab:
        assert tab.title() == 'first'
        write_page('second', '', [], tmp_path, refresh=0)
        expect(tab).to_have_title('second', timeout=20_000)
