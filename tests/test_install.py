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


def test_obstacles_are_named_with_the_remedy(install, monkeypatch, capfd):
    with monkeypatch.context() as patch:
        patch.setattr(install.sys, 'version_info', (3, 8, 18))
        assert install.main('light') == 1
    assert 'Python 3.8.18 found' in capfd.readouterr().err
    monkeypatch.setenv('CXX', 'no-such-compiler')
    with pytest.raises(install.SetupError, match=r'no-such-compiler.*apt-get install g\+\+'):
        install.check_compiler()
    nobody = 'http://127.0.0.1:9/simple'  # the discard port: nothing listens
    command = [sys.executable, '-m', 'pip', '--isolated', 'download', '--retries', '0']
    with pytest.raises(install.SetupError, match='did not answer'):
        install.run('a package', [*command, '--no-cache-dir', '--index-url', nobody, 'absent-x'])
    with pytest.raises(install.SetupError, match='failed'):
        install.run('a step', [sys.executable, '-c', 'raise ValueError("seen")'])
    assert 'seen' in capfd.readouterr().err
    script = ROOT / 'requirements' / 'install.py'
    result = subprocess.run([sys.executable, script, 'heavy'], capture_output=True, text=True)
    assert result.returncode != 0
    assert 'light|full' in result.stderr


def test_half_made_environment_is_replaced_and_a_finished_one_kept(install, monkeypatch, capsys):
    install.PYTHON.parent.mkdir(parents=True)
    install.PYTHON.write_text('')  # what an interrupted `python -m venv` can leave
    (install.VENV / 'ttl-setup.json').write_text(json.dumps({'light': 'x'}))
    assert install.read_stamp() == {}
    install.make_venv()
    assert install.venv_works()
    assert 'half-made' in capsys.readouterr().out
    stamp = {kind: install.fingerprint(kind) for kind in ('light', 'full')}
    install.STAMP.write_text(json.dumps(stamp))
    monkeypatch.setattr(install, 'install', lambda kind: pytest.fail('installed again'))
    assert install.main('light') == install.main('full') == 0
    with open(install.REQUIREMENTS / 'light.txt', 'a') as file:
        file.write('one-more==1.0\n')
    assert install.fingerprint('light') != stamp['light']
