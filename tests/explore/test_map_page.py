"""The page in a real browser: points, hover, neighbors, lasso, search, strange names."""

import os

import cv2
import numpy as np
import pytest
from matplotlib.path import Path
from playwright.sync_api import expect
from sklearn.neighbors import NearestNeighbors

from tests.helpers.browser import opened
from ttl_mm.explore.embedding import Embedding
from ttl_mm.explore.map_page import folders_of, locality_order, write_map
from ttl_mm.planning.image_sources import find_images, try_images

COUNT = 120
STRANGE = '<script>alert(1)</script>"\'&amp;.png'
TWO_LINES = 'first\nsecond.png'
NOT_UTF8 = os.fsdecode(b'caf\xe9.png')


def color_of(i):
    return [(37 * i) % 200 + 30, (91 * i) % 200 + 30, (53 * i) % 200 + 30]


@pytest.fixture(scope='module')
def shown(tmp_path_factory):
    """The page of 120 plain images, each of a color of its own, on a grid of 12 x 10 points."""
    folder = tmp_path_factory.mktemp('map')
    names = [f'{i:03}.png' for i in range(COUNT - 3)] + [
        TWO_LINES,
        STRANGE.replace('/', '_'),
        NOT_UTF8,
    ]
    for i, name in enumerate(names):
        content = cv2.imencode('.png', np.full((20, 30, 3), color_of(i), np.uint8))[1]
        (folder / 'images').mkdir(exist_ok=True)
        (folder / 'images' / name).write_bytes(content.tobytes())
    rng = np.random.default_rng(0)
    features = rng.normal(size=(COUNT, 8)).astype(np.float32)
    points = np.stack(np.meshgrid(np.linspace(0, 1, 12), np.linspace(0, 1, 10)), -1).reshape(-1, 2)
    embedding = Embedding(
        features, names, folder / 'images', np.arange(COUNT) % 3, ('<b>one</b>', 'two', 'three')
    )
    page = write_map(embedding, points.astype(np.float32), folder / 'page', 'A <title>')
    return page, names, features, points, locality_order(points)


def place(tab, order, i):
    """Where image i is on the page."""
    return tab.evaluate('i => ttlMap.position(i)', int(np.flatnonzero(order == i)[0]))


def color_at(tab, x, y):
    """The color (BGR) of a place, as the browser painted it."""
    clip = {'x': x, 'y': y, 'width': 2, 'height': 2}
    png = np.frombuffer(tab.screenshot(clip=clip), np.uint8)
    return cv2.imdecode(png, cv2.IMREAD_COLOR)[0, 0].astype(int).tolist()


def middle_color(tab, selector):
    """The color in the middle of an element."""
    box = tab.locator(selector).bounding_box()
    return color_at(tab, box['x'] + box['width'] / 2, box['y'] + box['height'] / 2)


def is_soon(tab, color, expected):
    """Whether a color becomes the expected one: a sheet of thumbnails is read first."""
    for _ in range(100):
        if np.abs(np.subtract(color(), expected)).max() < 8:
            return True
        tab.wait_for_timeout(50)
    return False


@pytest.mark.parametrize('width', [1200, 400])
def test_hover_shows_the_picture_and_a_click_the_true_neighbors(browser, shown, width):
    page, names, features, _, order = shown
    search = NearestNeighbors(n_neighbors=13, metric='cosine').fit(features.astype(np.float64))
    with opened(browser, page, width) as tab:
        tab.wait_for_function('ttlMap.count() === 120')
        expect(tab.locator('#status')).to_contain_text('120')
        for i in (5, 77):
            tab.mouse.move(*place(tab, order, i))
            assert names[i] in tab.locator('#hover').inner_text()
            assert is_soon(tab, lambda: middle_color(tab, '#hover .thumb'), color_of(i))
            tab.mouse.click(*place(tab, order, i))
            buttons = tab.locator('#neighbors button').all()
            found = [button.get_attribute('title') for button in buttons]
            distances, nearest = search.kneighbors(features[i : i + 1])
            assert found == [names[j] for j in nearest[0][1:]]
            assert buttons[0].inner_text() == f'{1 - distances[0][1]:.3f}'
        assert tab.evaluate('document.documentElement.scrollWidth') <= width


def test_thumbnails_stand_in_the_map_beyond_a_zoom(browser, shown):
    page, _, _, _, order = shown
    with opened(browser, page) as tab:
        row = int(np.flatnonzero(order == 40)[0])
        tab.evaluate('i => ttlMap.zoomTo(i, 4)', row)
        x, y = place(tab, order, 40)
        assert is_soon(tab, lambda: color_at(tab, x, y), color_of(40))


@pytest.mark.parametrize('width', [1200, 400])
def test_the_lasso_lists_what_lies_inside(browser, shown, width):
    page, names, _, _, order = shown
    folder = os.fsencode(page.parent.parent / 'images')
    with opened(browser, page, width) as tab:
        lasso = [place(tab, order, i) for i in (0, 11, COUNT - 1)]  # three corners of the grid
        (left, top), (right, _), (_, bottom) = lasso
        lasso = [(left - 8, top - 9), (right + 8, top - 9), (right + 8, bottom + 5)]
        tab.click('#lasso')
        tab.mouse.move(*lasso[0])
        tab.mouse.down()
        for corner in lasso[1:]:
            tab.mouse.move(*corner, steps=5)
        tab.mouse.up()
        tab.wait_for_function('ttlMap.selected().length > 0')
        places = [place(tab, order, i) for i in range(COUNT)]
        chosen = Path(lasso).contains_points(places)
        inside = {name for name, is_inside in zip(names, chosen) if is_inside}
        assert 30 < len(inside) < 90
        assert set(tab.evaluate('ttlMap.selected()')) == inside
        with tab.expect_download() as download:
            tab.click('#download')
        listed = download.value.path().read_bytes().split(b'\n')[:-1]
        assert sorted(listed) == sorted(folder + b'/' + os.fsencode(name) for name in inside)
        list_file = page.parent / f'{width}.txt'
        list_file.write_bytes(download.value.path().read_bytes())
        assert try_images(find_images([list_file])).bad == []  # as training opens it


def test_a_name_with_a_line_break_is_shown_and_left_out_of_a_list(browser, shown):
    page = shown[0]
    with opened(browser, page) as tab:
        tab.fill('#search', 'first')
        tab.press('#search', 'Enter')
        assert tab.locator('#name').text_content() == TWO_LINES
        tab.focus('#map')
        tab.keyboard.press('0')
        tab.keyboard.press('s')  # all that is in view
        status = (
            '120 selected of 120 images; left out of the list for a line break in their names: 1'
        )
        expect(tab.locator('#status')).to_have_text(status)
        with tab.expect_download() as download:
            tab.click('#download')
        assert len(download.value.path().read_bytes().split(b'\n')) == COUNT - 1 + 1


def test_names_are_text_and_can_be_searched(browser, shown):
    page, names, _, _, _ = shown
    with opened(browser, page) as tab:
        tab.fill('#search', '<script>')
        tab.press('#search', 'Enter')
        assert tab.locator('#name').inner_text() == names[-2]
        expect(tab.locator('#status')).to_contain_text('1 found')
        assert '<b>one</b>' in tab.locator('#legend').inner_text()
        assert tab.title() == 'A <title>'
        tab.fill('#search', 'caf')
        tab.press('#search', 'Enter')
        assert tab.locator('#name').inner_text() == NOT_UTF8


def test_two_fingers_zoom_and_one_moves_or_draws(browser, shown):
    page, names, _, _, order = shown
    with opened(browser, page, 400, has_touch=True, is_mobile=True) as tab:
        touch = tab.context.new_cdp_session(tab)

        def fingers(kind, *places):
            points = [{'x': x, 'y': y, 'id': n} for n, (x, y) in enumerate(places)]
            touch.send('Input.dispatchTouchEvent', {'type': kind, 'touchPoints': points})

        def gesture(*steps):
            fingers('touchStart', *steps[0])
            for step in steps[1:]:
                fingers('touchMove', *step)
            fingers('touchEnd')

        x, y = place(tab, order, 65)  # near the middle
        far = [place(tab, order, i)[0] for i in (60, 71)]  # the ends of a row
        gesture(*([(x - 10 * n, y), (x + 10 * n, y)] for n in range(2, 7)))
        spread = [place(tab, order, i)[0] for i in (60, 71)]
        assert (spread[1] - spread[0]) / (far[1] - far[0]) == pytest.approx(3, rel=0.05)
        before = place(tab, order, 65)
        gesture([(200, 300)], [(220, 310)], [(240, 320)])
        moved = np.subtract(place(tab, order, 65), before)
        assert moved == pytest.approx([40, 20], abs=1)
        tab.click('#reset')
        tab.click('#lasso')
        x, y = place(tab, order, 65)
        reach = (place(tab, order, 66)[0] - x) / 2
        corners = [(x - reach, y - 9), (x + reach, y - 9), (x + reach, y + 9), (x - reach, y + 9)]
        gesture(*([corner] for corner in corners))
        assert tab.evaluate('ttlMap.selected()') == [names[65]]


def test_folders_are_a_coloring(browser, tmp_path):
    names = [('q"', '<b>')[i % 2] + f'/{i}.png' for i in range(6)]
    assert folders_of(names) == ([1, 0] * 3, ['<b>', 'q"'])
    assert folders_of([f'/data/x/{name}' for name in names]) == ([1, 0] * 3, ['<b>', 'q"'])
    assert folders_of(['a.png', 'b.png']) is None
    assert folders_of(['a.png', 'x/b.png']) == ([0, 1], ['.', 'x'])
    embedding = Embedding(np.eye(6, dtype=np.float32), names, tmp_path)
    page = write_map(embedding, np.random.default_rng(0).random((6, 2)), tmp_path / 'page')
    with opened(browser, page) as tab:
        assert tab.locator('#color').input_value() == 'folder'
        assert tab.locator('#legend').inner_text().split() == ['<b>', 'q"']
        tab.select_option('#color', 'density')
        assert 'sparse' in tab.locator('#legend').inner_text()


def test_keyboard_touch_and_dark_colors(browser, shown):
    page, _, _, _, order = shown
    with opened(browser, page, color_scheme='dark', has_touch=True) as tab:
        background = tab.evaluate('getComputedStyle(document.body).backgroundColor')
        assert background == 'rgb(18, 24, 30)'
        tab.touchscreen.tap(*place(tab, order, 30))
        assert order[tab.evaluate('ttlMap.current()')] == 30
        tab.focus('#map')
        tab.keyboard.press('Escape')
        assert tab.evaluate('ttlMap.current()') == -1
        before = place(tab, order, 30)
        tab.keyboard.press('ArrowRight')
        assert place(tab, order, 30)[0] < before[0]
        tab.keyboard.press('+')
        tab.keyboard.press('Enter')
        assert tab.evaluate('ttlMap.current()') >= 0
