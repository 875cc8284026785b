"""The folder of sites of all versions."""

import json

import pytest

from tests.helpers.paths import ROOT


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools'))
    import docs_versions

    return docs_versions


def test_versions_are_listed_newest_first_and_the_start_page_leads_to_the_newest(tool, tmp_path):
    pages = tmp_path / 'pages'
    for version in ('0.2.0', '0.10.0', 'dev', '0.9.1'):
        page = tmp_path / version / 'docs' / 'README.html'
        page.parent.mkdir(parents=True)
        page.write_text(version)
        tool.add_version(tmp_path / version, pages, version, base='/ttl_mm/')
    listed = json.loads((pages / 'switcher.json').read_text())
    assert [entry['version'] for entry in listed] == ['0.10.0', '0.9.1', '0.2.0', 'dev']
    assert listed[0]['url'] == '/ttl_mm/0.10.0/'
    assert 'url=0.10.0/docs/README.html' in (pages / 'index.html').read_text()
    assert (pages / '0.9.1/docs/README.html').read_text() == '0.9.1'
    assert 'url=docs/README.html' in (pages / '0.9.1/index.html').read_text()


def test_a_version_is_replaced_as_a_whole_and_a_folder_without_a_site_is_refused(tool, tmp_path):
    site, pages = tmp_path / 'site', tmp_path / 'pages'
    (site / 'docs').mkdir(parents=True)
    with pytest.raises(SystemExit, match='make docs'):
        tool.add_version(site, pages, '1.0')
    (site / 'docs/README.html').write_text('new')
    (pages / '1.0').mkdir(parents=True)
    (pages / '1.0/old.html').write_text('old')
    assert tool.add_version(site, pages, '1.0') == ['1.0']
    assert not (pages / '1.0/old.html').exists()
