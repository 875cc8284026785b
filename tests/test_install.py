"""The set-up script: what is in its way is one sentence, and the next run works."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

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
    with open(install.LOCKED / 'light.txt', 'a') as file:
        file.write('one-more==1.0\n')
    assert install.fingerprint('light') != stamp['light']


@pytest.mark.parametrize(
    ('cuda', 'has_compiler', 'name', 'forced'),
    [('', False, 'ops', None), ('12.8', True, 'ops-cuda12.8', '1'), ('12.8', False, 'ops', None)],
)
def test_ops_are_built_for_the_gpu_that_a_login_node_does_not_have(
    install, monkeypatch, tmp_path, capsys, cuda, has_compiler, name, forced
):
    """And are kept apart from those of a CPU."""
    answers = {'__version__': '2.13.0', 'version.cuda': cuda}
    monkeypatch.setattr(
        install, 'capture', lambda command: next(v for k, v in answers.items() if k in command[-1])
    )
    bin_ = tmp_path / 'cuda' / 'bin'
    bin_.mkdir(parents=True)
    if has_compiler:
        (bin_ / 'nvcc').write_text('#!/bin/sh\n')
        (bin_ / 'nvcc').chmod(0o755)
    monkeypatch.setenv('CUDA_HOME', str(bin_.parent))
    monkeypatch.setenv('PATH', '/nowhere')
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    monkeypatch.setattr(install, 'check_compiler', lambda: None)
    environments = []

    def build(what, command, **environment):
        environments.append(environment)
        target = command[command.index('-w') + 1]
        target.mkdir()
        (target / 'mmcv.whl').write_text('')

    monkeypatch.setattr(install, 'run', build)
    folder = install.mmcv_wheel(with_ops=True).parent
    assert folder.name.endswith(f'-{name}')
    assert [env.get('FORCE_CUDA') for env in environments] == [forced]
    assert ('there is no nvcc here' in capsys.readouterr().out) == bool(cuda and not has_compiler)


def test_a_kept_wheel_is_ours_and_unchanged(install, tmp_path):
    folder = tmp_path / 'wheels'
    folder.mkdir(mode=0o700)
    assert not install.kept_wheel(folder)
    (folder / 'a.whl').write_bytes(b'wheel')
    assert not install.kept_wheel(folder)  # whose hash nobody wrote down
    (folder / 'sha256').write_text(install.sha256_of(folder / 'a.whl'))
    assert install.kept_wheel(folder)
    folder.chmod(0o777)  # others could have put it there
    assert not install.kept_wheel(folder)
    folder.chmod(0o700)
    (folder / 'a.whl').write_bytes(b'other')
    assert not install.kept_wheel(folder)


def test_a_missing_pin_is_not_blamed_on_the_network(install, capfd):
    """Where the registry answers, pip lists the versions that there are."""
    missing = 'ERROR: Could not find a version that satisfies the requirement pillow==13.0.0 '
    for lines, words in {
        (missing + '(from versions: 11.0, 12.0)',): 'has no pillow==13.0.0 for Python 3',
        (missing + '(from versions: none)',): 'did not answer',
    }.items():
        code = f'import sys; print({chr(10).join(lines)!r}); sys.exit(1)'
        with pytest.raises(install.SetupError, match=words):
            install.run('packages', [sys.executable, '-c', code])
    capfd.readouterr()


def write_wheel(folder, name, version):
    """The smallest wheel there can be."""
    folder.mkdir(exist_ok=True)
    info = f'{name}-{version}.dist-info'
    files = {
        f'{info}/METADATA': f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n',
        f'{info}/WHEEL': 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
        f'{info}/RECORD': f'{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n',
    }
    path = folder / f'{name}-{version}-py3-none-any.whl'
    with zipfile.ZipFile(path, 'w') as wheel:
        for inside, text in files.items():
            wheel.writestr(inside, text)
    return path


def test_a_file_that_is_not_the_locked_one_is_refused(install, monkeypatch, tmp_path, capfd):
    """And a build of torch that the user's own settings offer is taken, and said to be unhashed."""
    wheels, target = tmp_path / 'wheels', tmp_path / 'target'
    settings = {'PIP_NO_INDEX': '1', 'PIP_FIND_LINKS': wheels, 'PIP_TARGET': target,
                'PIP_CONFIG_FILE': os.devnull}  # fmt: skip
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    written = write_wheel(wheels, 'torch', '1.0')
    lock = install.LOCKED / 'torch.txt'
    lock.write_text(f'torch==1.0 \\\n    --hash=sha256:{install.sha256_of(written)}\n')
    install.install_torch(sys.executable, 'torch')
    assert (target / 'torch-1.0.dist-info').exists()
    lock.write_text(f'torch==1.0 \\\n    --hash=sha256:{"0" * 64}\n')
    with pytest.raises(install.SetupError, match='torch failed'):
        install.install_torch(sys.executable, 'torch')
    assert 'DO NOT MATCH THE HASHES' in capfd.readouterr().err
    write_wheel(wheels, 'torch', '1.0+cu130')
    install.install_torch(sys.executable, 'torch')
    assert 'torch==1.0+cu130 (of your own source of packages: no hash' in capfd.readouterr().out
    assert (target / 'torch-1.0+cu130.dist-info').exists()


def test_every_pin_is_locked_with_hashes_and_one_opencv(install):
    """`make lock` writes the locks again when a file of requirements has changed."""
    entry = re.compile(
        r'^([a-z0-9][^ ]*==[^ ]+)( ;[^\\]+)?((?: \\\n    --hash=sha256:\w{64})+)$', re.M
    )
    locked = {}
    for path in install.LOCKED.glob('*.txt'):
        text = path.read_text()
        found = entry.findall(text)
        lines = sum(1 + hashes.count('--hash') for _, _, hashes in found)
        assert lines + 1 == len(text.splitlines()), f'{path.name} has more than pins and hashes'
        locked[path.stem] = {requirement for requirement, _, _ in found}
    everything = set().union(*locked.values())
    for name in ('light', 'full', 'nodeps', 'build'):
        lines = (install.REQUIREMENTS / f'{name}.txt').read_text().splitlines()
        pins = {line.partition('#')[0].strip() for line in lines} - {''}
        pins = {pin.replace('_', '-').lower() for pin in pins if '==' in pin}
        assert pins <= everything, f'run `make lock`, which pins {pins - everything}'
    assert [pin for pin in everything if pin.startswith('opencv')] == [
        'opencv-python-headless==4.12.0.88'
    ]
    assert install.pin('onedl-mmcv', 'mmcv') in everything


def test_one_range_of_pythons_everywhere(install):
    oldest, newest = ('.'.join(map(str, v)) for v in (install.OLDEST, install.NEWEST))
    after = f'3.{install.NEWEST[1] + 1}'
    assert f'python_requires = >={oldest},<{after}\n' in (ROOT / 'setup.cfg').read_text()
    assert f'{oldest} to {newest} needed' in (ROOT / 'requirements/install.py').read_text()
    assert f'{oldest} to {newest} is needed' in (ROOT / 'ttl_mm/cli/_installation.py').read_text()
    assert f'Python {oldest}, 3.12 or {newest} and pip' in (ROOT / 'README.md').read_text()


def test_the_matrix_leaves_out_only_tests_that_exist(install):
    """And takes in every test tool that conftest.py imports."""
    spec = importlib.util.spec_from_file_location('matrix', ROOT / 'requirements/matrix.py')
    matrix = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(matrix)
    assert [path for path in matrix.LEFT_OUT if not (ROOT / path).exists()] == []
    assert {'playwright', 'pytest', 'pytest-xdist', 'timm'} <= set(matrix.TEST_TOOLS)
    assert [version for version, _ in matrix.find_pythons()] == sorted(
        dict(matrix.find_pythons()), key=lambda text: int(text[2:])
    )
