"""Put a built site among those of other versions.

    make docs
    python tools/docs_versions.py build/site PAGES [--version 0.2.0] [--base /ttl_mm/]

PAGES is a folder that a web server shows, such as a checkout of the branch gh-pages. The site
becomes PAGES/VERSION, whose ``index.html`` leads to its first page. ``switcher.json``, from which
every page lists the versions, and ``PAGES/index.html``, which leads to the newest release, are
written again. A version that is there already is replaced. The base is the address of PAGES on its
server.
"""

import argparse
import json
import re
import shutil
import sys
from pathlib import Path

VERSION = Path(__file__).resolve().parents[1] / 'ttl_mm' / 'version.py'
START = 'docs/README.html'


def current_version() -> str:
    """The version of the package, read from its source."""
    found = re.search(r"__version__ = '(.+)'", VERSION.read_text())
    assert found
    return found[1]


def sort_key(version: str) -> tuple:
    """Releases by number; names such as ``dev`` come before all of them.

    >>> sorted(['0.10.0', 'dev', '0.2.0'], key=sort_key)
    ['dev', '0.2.0', '0.10.0']
    """
    is_release = re.fullmatch(r'\d+(\.\d+)*', version) is not None
    return is_release, [int(part) for part in version.split('.')] if is_release else [version]


def add_version(site: Path, pages: Path, version: str, base: str = '/') -> list[str]:
    """Copy the site, write the two files for all versions; the versions, newest first."""
    if not (site / START).is_file():
        raise SystemExit(f'{site} has no {START}: build the site with `make docs` first.')
    shutil.rmtree(pages / version, ignore_errors=True)
    shutil.copytree(site, pages / version, ignore=shutil.ignore_patterns('.doctrees'))
    versions = [path.parents[1].name for path in pages.glob(f'*/{START}')]
    versions.sort(key=sort_key, reverse=True)
    entries = [{'version': v, 'url': f'{base}{v}/'} for v in versions]
    (pages / 'switcher.json').write_text(json.dumps(entries, indent=1) + '\n')
    for folder, start in ((pages, f'{versions[0]}/{START}'), (pages / version, START)):
        (folder / 'index.html').write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0; url={start}">\n'
        )
    (pages / '.nojekyll').touch()  # GitHub leaves out folders such as _static otherwise
    return versions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('site', type=Path)
    parser.add_argument('pages', type=Path)
    parser.add_argument('--version', default=current_version())
    parser.add_argument('--base', default='/')
    args = parser.parse_args()
    args.pages.mkdir(parents=True, exist_ok=True)
    print('versions:', *add_version(args.site, args.pages, args.version, args.base))
    return 0


if __name__ == '__main__':
    sys.exit(main())
