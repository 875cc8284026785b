"""The curves of the report in a real browser."""

import json
import re

import pytest

from tests.helpers.browser import opened
from tests.helpers.work_dirs import EPOCH, write_start
from ttl_mm.report import write_report

NAMES = ('<script>alert(1)<', 'quote "\' &amp; b')


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
        values = chart.locator('.values').inner_text()
        assert values.splitlines() == ['epochs 2', f'{NAMES[0]}: 5', f'{NAMES[1]}: 6']
        before = chart.locator('.curve').count()
        chart.get_by_role('button', name=NAMES[0]).click()
        assert (before, chart.locator('.curve').count()) == (2, 1)
        heights = [chart.locator('.curve').get_attribute('d')]
        chart.get_by_role('button', name='log y').click()
        heights.append(chart.locator('.curve').get_attribute('d'))
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
        assert [line['name'] for line in data['lines']] == list(NAMES)
