"""The documentation site: ``make docs`` builds it from the pages of the repository.

The source folder is the root of the repository, so that a link between two pages is the same on the
site and in a checkout. docs/README.md is the first page, and its table is the navigation.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from ttl_mm.version import __version__  # noqa: E402

project = 'ttl_mm'
author = 'The ttl_mm authors'
release = version = os.environ.get('DOCS_VERSION', __version__)

extensions = [
    'myst_nb',  # with myst_parser, for the pages
    'sphinx.ext.autodoc',
    'sphinx.ext.napoleon',
    'sphinx.ext.viewcode',
    'site_parts',
    'site_math',
]
root_doc = 'docs/README'
include_patterns = [
    'docs/**.md',
    'docs/tutorials/*.ipynb',
    '*.md',
    'configs/**README.md',
    'projects/*/README.md',
]
# whole folders first: they are not searched for pages, which took a fifth of the time
exclude_patterns = ['.*', 'build', 'requirements', 'tests', 'tools', 'ttl_mm', '**/work_dirs']

# Notebooks are kept without outputs, which would grow old, and the suite runs them. The site that
# is published runs them too: DOCS_NOTEBOOKS=force.
nb_execution_mode = os.environ.get('DOCS_NOTEBOOKS', 'off')
nb_execution_in_temp = True
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

myst_heading_anchors = 4
myst_enable_extensions = ['colon_fence']

autodoc_typehints = 'description'
autodoc_member_order = 'bysource'
autodoc_default_options = {'members': True, 'show-inheritance': True}
napoleon_use_rtype = False

html_math_renderer = 'drawn'  # by site_math, without a network
html_theme = 'sphinx_book_theme'  # all pages in one sidebar, in the groups of the index
html_title = f'ttl_mm {version}'
html_show_sourcelink = False
html_theme_options = {
    'show_navbar_depth': 1,
    'show_toc_level': 2,
    'home_page_in_toc': True,
    'use_download_button': False,
    'navbar_persistent': [],  # the sidebar has the field for searching
    'primary_sidebar_end': ['version-switcher'],
    # relative to a page of a version; tools/docs_versions.py writes it beside the versions
    'switcher': {'json_url': '../switcher.json', 'version_match': version},
    'check_switcher': False,  # there is none before the first release
}
copyright = 'The ttl_mm authors, Apache-2.0'

if 'DOCS_CHECK' in os.environ:  # for `make lint`, in half the time: every page without its frame
    extensions.remove('sphinx.ext.viewcode')
    html_theme, html_theme_options = 'basic', {}
