import pytest

from ttl_mm import cli
from ttl_mm.errors import UserError


def test_every_command_has_help(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli.main(['--help'])
    assert stopped.value.code == 0
    assert 'doctor' in capsys.readouterr().out


def test_user_error_is_one_line_and_exit_code_2(monkeypatch, capsys):
    from ttl_mm.cli import doctor

    def fail(args):
        raise UserError('no images in x: give a folder that has some')

    monkeypatch.setattr(doctor, 'run', fail)
    assert cli.main(['doctor']) == 2
    assert capsys.readouterr().err == 'ttl doctor: no images in x: give a folder that has some\n'
