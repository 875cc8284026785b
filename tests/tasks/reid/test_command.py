import pytest

from ttl_mm.cli import main


@pytest.fixture(autouse=True)
def no_shared_cache(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))


@pytest.mark.parametrize('layout', ['sysu', 'market'])
def test_what_is_made_passes_the_check(tmp_path, capsys, layout):
    root = str(tmp_path / 'data')
    assert main(['reid', 'make', root, '--layout', layout, '--test-people', '3']) == 0
    assert main(['reid', 'check', root]) == 0
    assert 'query: 3 images, 3 identities' in capsys.readouterr().out


def test_made_data_never_covers_other_data(tmp_path, capsys):
    (tmp_path / 'photo.jpg').touch()
    assert main(['reid', 'make', str(tmp_path)]) == 2
    assert 'is not empty' in capsys.readouterr().err


def test_unusable_data_ends_with_2_and_is_named(tmp_path, capsys):
    root = tmp_path / 'data'
    assert main(['reid', 'make', str(root)]) == 0
    (root / 'sysu_test_set_all/gallery/portrait.jpg').write_bytes(b'x')
    assert main(['reid', 'check', str(root), '--files', '0']) == 2
    captured = capsys.readouterr()
    assert 'ERROR: 1 x file name that names no identity: gallery/portrait.jpg' in captured.out
    assert 'not fit for use' in captured.err
