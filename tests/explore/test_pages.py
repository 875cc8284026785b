"""The page of groups of images in a real browser, with names of strangers."""

import os

import cv2
import numpy as np
import pytest

from tests.helpers.browser import opened
from ttl_mm.cli import main
from ttl_mm.explore import pages
from ttl_mm.explore.duplicates import Threshold
from ttl_mm.explore.find_duplicates import explain
from ttl_mm.explore.pages import Shown, write_groups_page

NAMES = [
    '<script>alert(1)<.png',
    'quote "\' &amp;.png',
    os.fsdecode(b'caf\xe9.png'),
    'two\nlines.png',
]


@pytest.fixture
def images(tmp_path):
    """Four equal images with odd names."""
    content = cv2.imencode('.png', np.full((20, 30, 3), 90, np.uint8))[1].tobytes()
    for name in NAMES:
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(('width', 'scheme'), [(1200, 'dark'), (400, 'light')])
def test_names_are_text_and_the_page_fits(browser, images, width, scheme):
    group = [Shown(str(images / name), f'{n}', f'<b>{n}</b>') for n, name in enumerate(NAMES)]
    page = write_groups_page('A <title>', 'A <lead>.', [group], '<i>', images / 'page', 'ttl x')
    with opened(browser, page, width, color_scheme=scheme) as tab:
        files = tab.locator('td[data-label=file]').all()
        shown = [file.text_content().rpartition('/')[2] for file in files]
        assert shown == [NAMES[0], NAMES[1], 'caf\\xe9.png', NAMES[3]]
        assert tab.locator('td[data-label=image]').first.text_content() == '<b>0</b>'
        assert tab.locator('.lead').inner_text() == 'A <lead>.'
        assert tab.evaluate('document.documentElement.scrollWidth') <= width
        assert tab.evaluate('document.querySelector("figure img").naturalWidth') > 100


def test_odd_names_in_duplicates_of_a_folder(images, capsys):
    (images / NAMES[3]).unlink()  # which no list can hold: the command says so
    out = images.parent / 'out'
    assert main(['duplicates', str(images), '--out', str(out)]) == 0
    said = capsys.readouterr().out
    assert '1 group, 2 images to leave out; 1 stay' in said
    said.encode()  # what a terminal can show
    (kept,) = (out / 'clean.txt').read_bytes().splitlines()
    assert os.path.exists(kept)
    (images / NAMES[3]).write_bytes(b'x')
    assert main(['duplicates', str(images), '--out', str(images.parent / 'more')]) == 2
    assert 'cannot stand in a list of names: rename that file' in capsys.readouterr().err


def test_long_results_are_cut_on_the_page(images, monkeypatch):
    monkeypatch.setattr(pages, 'SHOWN_GROUPS', 2)
    monkeypatch.setattr(pages, 'LISTED', 5)
    group = [Shown(str(images / NAMES[0]), '', 'x')] * 2
    page = write_groups_page('T', 'L', [group] * 4, 'Framed.', images / 'page', 'ttl x').read_text()
    assert page.count('data-label="file"') == 5
    assert 'Framed. These are the first 2 of 4 groups.' in page
    assert 'The first 5 of 8 images.' in page


def test_the_threshold_is_explained():
    found = explain(Threshold(0.93, 0.8, 0.05), None)
    assert 'cosine of 0.9300 or more' in found
    assert '80% of the altered copies of your images reach it' in found
    assert explain(Threshold(0.93, np.nan, np.nan), 0.93).endswith('as asked.')
