"""Pages in a real Chromium, which must not complain and must not ask the network for anything."""

import multiprocessing
import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = (
    shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome')
)
SWITCHES = [
    '--no-sandbox',  # as root, in containers
    '--disable-gpu',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
]


@contextmanager
def chromium():
    """A browser without a window; where there is none, the test is skipped, but not in CI."""
    if CHROMIUM is None:
        assert not os.environ.get('CI'), 'no Chromium in CI: .ci/run must install it (make browser)'
        pytest.skip('no Chromium here: `make browser` installs it')
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()
        # Playwright waits for its driver to end, and the driver for the end of a pipe that every
        # process forked meanwhile holds open: one that still loads data would keep both waiting
        for process in multiprocessing.active_children():
            process.terminate()
            process.join()


@contextmanager
def opened(browser: Browser, page: Path, width: int = 1200, height: int = 800, **options):
    """A page from a file; afterwards it must have had no error and asked for nothing but files."""
    context = browser.new_context(viewport={'width': width, 'height': height}, **options)
    tab: Page = context.new_page()
    complaints, requests = [], []
    tab.on('console', lambda message: complaints.append(message.text))
    tab.on('pageerror', lambda error: complaints.append(str(error)))
    tab.on('request', lambda request: requests.append(request.url))
    tab.goto(page.resolve().as_uri())
    yield tab
    context.close()
    assert complaints == []
    outside = [url for url in requests if not url.startswith(('file:', 'data:', 'blob:'))]
    assert outside == []
