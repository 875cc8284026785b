"""Commands in a notebook."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from ttl_mm.errors import UserError


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.setenv('IPYTHONDIR', str(tmp_path))
    shell = InteractiveShell()
    shell.run_line_magic('load_ext', 'ttl_mm.notebook')
    return shell


def test_a_line_is_the_command_with_names_of_the_notebook_filled_in(shell, capsys):
    shell.user_ns['name'] = 'list'
    shell.run_cell('%ttl zoo {name}').raise_error()
    assert 'ttl_r18_digits' in capsys.readouterr().out


def test_a_command_that_fails_ends_the_cell(shell):
    result = shell.run_cell('%ttl eval nowhere.pth\nwent_on = True')
    assert isinstance(result.error_in_exec, UserError)
    assert 'exit code 2' in str(result.error_in_exec)
    assert 'went_on' not in shell.user_ns
