"""The set-up script: what is in its way is one sentence, and the next run works."""

import importlib.util
import json
import shutil
import subprocess
import sys

import pytest

from tests.helpers.paths import ROOT


@pytest.fixture
def install(tmp_path):
    """The script in a checkout of its own, so that it sees another .venv."""
    shutil.copytree(ROOT / 'requirements', tmp_path / 'requirements')
    shutil.copy(ROOT / 'setup.cfg', tmp_path)
    spec = importlib.util.spec_from_file_location('install', tmp_path / 'requirements/install.py')
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_wrong_python_is_named_with_the_remedy(install, monkeypatch, capsys):
    monkeypatch.setattr(install.sys, 'version_info', (3, 8, 18))
    assert install.main('light') == 1
    assert 'Python 3.8.18 found' in capsys.readouterr().err


def test_no_compiler_is_named_with_the_remedy(install, monkeypatch):
    monkeypatch.setenv('CXX', 'no-such-compiler')
    with pytest.raises(install.SetupError, match=r'no-such-compiler.*apt-get install g\+\+'):
        install.check_compiler()


def test_unreachable_registry_is_named(install):
    nobody = 'http://127.0.0.1:9/simple'  # the discard port: nothing listens
    command = [sys.executable, '-m', 'pip', '--isolated', 'download', '--retries', '0']
    with pytest.raises(install.SetupError, match='did not answer'):
        install.run('a package', [*command, '--no-cache-dir', '--index-url', nobody, 'absent-x'])


def test_another_failure_is_not_called_a_network_problem(install, capfd):
    with pytest.raises(install.SetupError, match='failed'):
        install.run('a step', [sys.executable, '-c', 'raise ValueError("seen")'])
    assert 'seen' in capfd.readouterr().err


def test_half_made_environment_is_made_anew(install, capsys):
    install.PYTHON.parent.mkdir(parents=True)
    install.PYTHON.write_text('')  # what an interrupted `python -m venv` can leave
    (install.VENV / 'ttl-setup.json').write_text(json.dumps({'light': 'x'}))
    assert install.read_stamp() == {}
    install.make_venv()
    assert install.venv_works()
    assert 'half-made' in capsys.readouterr().out


def test_stamp_of_the_same_files_means_nothing_to_do(install, monkeypatch):
    install.make_venv()
    stamp = {kind: install.fingerprint(kind) for kind in ('light', 'full')}
    install.STAMP.write_text(json.dumps(stamp))
    monkeypatch.setattr(install, 'install', lambda kind: pytest.fail('installed again'))
    assert install.main('light') == 0
    assert install.main('full') == 0


def test_changed_pin_means_work_to_do(install):
    before = install.fingerprint('light')
    with open(install.REQUIREMENTS / 'light.txt', 'a') as file:
        file.write('one-more==1.0\n')
    assert install.fingerprint('light') != before


def test_usage():
    script = ROOT / 'requirements' / 'install.py'
    result = subprocess.run([sys.executable, script, 'heavy'], capture_output=True, text=True)
    assert result.returncode != 0
    assert 'light|full' in result.stderr
