"""Whether the page of ``ttl map`` is smooth: time to open it, and time of a frame while it moves.

``python -m tools.benchmarks.bench_map --images 10000 100000`` writes maps of made-up images, opens
them in Chromium without a graphics card, drags and zooms with real events of the mouse, and prints
the time between frames, what drawing a frame takes, and which thumbnails were loaded.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import ttl_mm.registry  # noqa: F401
from tests.helpers.browser import chromium, opened
from tools.figures import markdown
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


HEADER = (
    'images', 'page', 'opened in', 'a frame while dragging, median (95 %)', 'drawing it',
    'while zooming', 'while hovering', 'sheets of thumbnails loaded',
)  # fmt: skip


def times(tab, act) -> tuple[str, str]:
    """Milliseconds between frames while ``act`` moves the page, and of drawing one."""
    tab.evaluate('() => { frames_.length = painted_.length = 0; }')
    act()
    frames, painted = (np.array(tab.evaluate(f'() => {which}_')) for which in ('frames', 'painted'))
    both = (np.percentile(each, [50, 95]) for each in (np.diff(frames), [*painted] or [0]))
    between, drawn = (f'{middle:.1f} ms ({worst:.1f})' for middle, worst in both)
    return between, drawn


def measure(browser, page: Path, count: int) -> list[str]:
    """A row of the table."""
    sheets: set[str] = set()
    begun = time.perf_counter()
    with opened(browser, page) as tab:
        tab.on('request', lambda request: sheets.add(request.url.rpartition('/')[2]))
        tab.wait_for_function('document.getElementById("status").textContent.includes("shown")')
        opened_in = time.perf_counter() - begun
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

        (between, drawn), (zoomed, _), (hovered, _) = (
            times(tab, act) for act in (drag, zoom, hover)
        )
        tab.evaluate('i => ttlMap.zoomTo(i, 60)', count // 2)
        tab.wait_for_timeout(500)
    size = f'{page.stat().st_size / 1e6:.1f} MB'
    loaded = f'{len(sheets)} of {-(-count // 256)}'
    return [f'{count:,}', size, f'{opened_in:.1f} s', between, drawn, zoomed, hovered, loaded]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--images', type=int, nargs='+', default=[10_000, 100_000])
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        for count in args.images:
            folder = Path(name) / str(count)
            folder.mkdir()
            rows.append(measure(browser, made_up(count, folder), count))
    print(markdown(HEADER, rows))


if __name__ == '__main__':
    main()
