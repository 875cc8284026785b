"""Whether the page of ``ttl map`` is smooth: time to open it, and time of a frame while it moves.

``python tools/benchmarks/bench_map.py --images 10000 100000`` writes maps of made-up images, opens
them in Chromium without a graphics card, drags and zooms with real events of the mouse, and prints
the time between frames, what drawing a frame takes, and which thumbnails were loaded.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

import ttl_mm.registry  # noqa: F401
from tests.helpers.browser import chromium, opened
from ttl_mm.explore.embedding import Embedding
from ttl_mm.explore.map_page import write_map
from ttl_mm.explore.projection import project
from ttl_mm.explore.thumbnails import CELL

FRAMES = 90
RECORD = """() => {
  window.frames_ = []; window.painted_ = [];
  const request = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = callback => request(now => {
    const start = performance.now();
    callback(now);
    painted_.push(performance.now() - start);
  });
  const tick = now => { frames_.push(now); request(tick); };
  request(tick);
}"""


def made_up(count: int, folder: Path, dim: int = 16) -> Path:
    """A map of clusters, with a thumbnail of one color for every image."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(40, dim))
    member = rng.integers(40, size=count)
    features = (centers[member] + 0.5 * rng.normal(size=(count, dim))).astype(np.float32)
    names = [f'{member[i]:02}/{i:06}.jpg' for i in range(count)]
    embedding = Embedding(features, names, folder)

    def color(file: str) -> np.ndarray:
        number = int(Path(file).stem)
        return np.full((CELL, CELL, 3), [number % 200, number // 200 % 200, 90], np.uint8)

    return write_map(embedding, project(features, 'pca'), folder / 'map', make_thumbnail=color)


def times(tab, name: str, act) -> None:
    """Print what frames take while ``act`` moves the page."""
    tab.evaluate('() => { frames_.length = painted_.length = 0; }')
    act()
    frames, painted = (np.array(tab.evaluate(f'() => {which}_')) for which in ('frames', 'painted'))
    between = np.diff(frames)
    middle, worst = np.percentile(between, [50, 95])
    drawn = np.percentile(painted, [50, 95]) if len(painted) else (0, 0)
    print(
        f'  {name:5s} {len(painted):3d} drawn: a frame every {middle:.1f} ms (95 %: {worst:.1f}), '
        f'drawing it {drawn[0]:.1f} ms (95 %: {drawn[1]:.1f})'
    )


def measure(browser, page: Path, count: int) -> None:
    print(f'{count:,} images, page {page.stat().st_size / 1e6:.1f} MB')
    sheets: set[str] = set()
    begun = time.perf_counter()
    with opened(browser, page) as tab:
        tab.on('request', lambda request: sheets.add(request.url.rpartition('/')[2]))
        tab.wait_for_function('document.getElementById("status").textContent.includes("shown")')
        print(f'  open  {time.perf_counter() - begun:.2f} s until all points are drawn')
        tab.evaluate(RECORD)

        def drag() -> None:
            tab.mouse.move(400, 300)
            tab.mouse.down()
            for step in range(FRAMES):
                tab.mouse.move(400 + 3 * step, 300 + 40 * np.sin(step / 9))
            tab.mouse.up()

        def zoom() -> None:
            for step in range(FRAMES):
                tab.mouse.wheel(0, -60 if step < FRAMES // 2 else 60)

        def hover() -> None:
            for step in range(FRAMES):
                tab.mouse.move(150 + 6 * step, 250 + 2 * step)

        for name, act in (('drag', drag), ('zoom', zoom), ('hover', hover)):
            times(tab, name, act)
        before = len(sheets)
        tab.evaluate('i => ttlMap.zoomTo(i, 60)', count // 2)
        tab.wait_for_timeout(500)
        shown = json.loads(
            tab.evaluate('JSON.stringify(document.getElementById("status").textContent)')
        )
        total = -(-count // 256)
        print(f'  zoom in: {shown}; {len(sheets)} of {total} sheets loaded, {before} before that')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--images', type=int, nargs='+', default=[10_000, 100_000])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        for count in args.images:
            folder = Path(name) / str(count)
            folder.mkdir()
            begun = time.perf_counter()
            page = made_up(count, folder)
            print(f'written in {time.perf_counter() - begun:.0f} s')
            measure(browser, page, count)


if __name__ == '__main__':
    main()
