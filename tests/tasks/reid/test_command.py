"""``ttl reid check`` and ``ttl reid make``; ``ttl reid eval`` is tested in test_evaluate.py."""

from ttl_mm.cli import main
from ttl_mm.tasks.reid.command import count_or_all


def test_what_is_made_passes_the_check_and_is_never_overwritten(tmp_path, capsys):
    for layout in ('sysu', 'market'):
        root = str(tmp_path / layout)
        assert main(['reid', 'make', root, '--layout', layout, '--test-people', '3']) == 0
        assert main(['reid', 'check', root]) == 0
        assert 'query (images: 3, identities: 3' in capsys.readouterr().out
        assert main(['reid', 'make', root]) == 2
        assert 'is not empty' in capsys.readouterr().err


def test_unusable_data_ends_with_2_and_is_named(tmp_path, capsys):
    root = tmp_path / 'data'
    assert main(['reid', 'make', str(root)]) == 0
    (root / 'sysu_test_set_all/gallery/portrait.jpg').write_bytes(b'x')
    assert main(['reid', 'check', str(root)]) == 2
    captured = capsys.readouterr()
    assert 'ERROR: 1 x file name with no identity: gallery/portrait.jpg' in captured.out
    assert f'{root} cannot be used' in captured.err


def test_files_is_a_number_or_all(tmp_path, capsys):
    assert [count_or_all(text) for text in ('all', '4', '0')] == [None, 4, 0]
    assert main(['reid', 'check', str(tmp_path), '--files', '-1']) == 2
    assert "'-1' is neither a number nor" in capsys.readouterr().err
