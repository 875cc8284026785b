import os
import subprocess
import sys
from types import SimpleNamespace

from ttl_mm.cli import _installation as doctor


def test_a_release_ends_where_no_number_follows():
    versions = ('2.13.0+cpu', '0.28.0', '1.0.0rc6')
    assert [doctor.release(text) for text in versions] == [(2, 13, 0), (0, 28, 0), (1, 0)]


def only(**versions):
    """In place of ``installed``: there are these distributions and no others."""
    return lambda *names: next(((name, versions[name]) for name in names if name in versions), None)


def test_wrong_python_is_a_failure(monkeypatch):
    monkeypatch.setattr(doctor.sys, 'version_info', (3, 8, 1))
    finding = doctor.check_python()
    assert finding.level == 'failure'
    assert '3.8.1' in finding.text


def test_torchvision_must_take_the_torch_that_is_there(monkeypatch):
    """Releases came in pairs up to 0.28; later ones ask for a range."""
    cases = [
        ('2.13.0+cpu', '0.28.0', ['numpy', 'torch==2.13.0'], True, 'ok'),
        ('2.13.0+cpu', '0.28.0', ['numpy', 'torch==2.13.0'], False, 'warning'),
        ('2.13.0+cpu', '0.27.1', ['numpy', 'torch (==2.12.1)'], True, 'failure'),
        ('2.15.0', '0.29.2', ['torch (>=2.14.0)'], True, 'ok'),
        ('2.13.0', '0.29.2', ['torch (>=2.14.0)'], True, 'failure'),
        ('2.13.0', '0.28.0', None, True, 'ok'),  # built without such data
    ]
    for torch, vision, asked, ops_load, level in cases:
        monkeypatch.setattr(doctor, 'installed', only(torch=torch, torchvision=vision))
        monkeypatch.setattr(doctor, 'requires', lambda name, asked=asked: asked)
        monkeypatch.setattr(doctor.torchvision_guard, 'ops_load', lambda loads=ops_load: loads)
        monkeypatch.setattr(doctor.torchvision_guard, 'guard_torchvision', lambda: None)
        finding = doctor.check_torchvision()
        assert finding.level == level, finding
        if level == 'failure':
            assert '`pip install torch==2.13.0 torchvision` finds' in finding.text


def test_a_missing_or_old_package_is_a_failure_and_an_optional_one_a_warning(monkeypatch):
    monkeypatch.setattr(doctor, 'installed', only())
    assert doctor.check_package('mmpretrain').level == 'failure'
    assert doctor.check_package('mmselfsup').level == 'warning'
    monkeypatch.setattr(doctor, 'installed', only(mmpretrain='1.1.0'))
    finding = doctor.check_package('mmpretrain')
    assert finding.level == 'failure'
    assert '1.2.0' in finding.text


def test_two_families_at_once(monkeypatch):
    monkeypatch.setattr(doctor, 'installed', lambda *names: (names[0], '9.9.9'))
    findings = {finding.subject: finding.level for finding in doctor.check_families()}
    several = ('mmengine', 'mmcv', 'mmpretrain', 'mmdet')  # mmselfsup comes from one distribution
    assert findings == dict.fromkeys(several, 'failure')


def test_one_opencv_and_who_asks_for_another(monkeypatch):
    one, other = 'opencv-python-headless', 'opencv-python'
    monkeypatch.setattr(doctor, 'installed', only())
    assert doctor.check_opencv().level == 'failure'
    monkeypatch.setattr(doctor, 'installed', only(**{one: '4.12.0', other: '4.13.0'}))
    finding = doctor.check_opencv()
    assert finding.level == 'warning'
    assert f'`pip uninstall -y {one} {other}`, then `pip install {one}==4.12.0`' in finding.text

    def package(name, *asked):
        return SimpleNamespace(metadata={'Name': name}, requires=asked or None)

    found = [package('a', 'opencv-python>=3'), package('b', f'{one}<5'), package('c'),
             package('d', 'opencv-python (>=3)'), package('e', 'opencv-python-x'),
             package('f', 'opencv-python<4 ; extra == "gui"')]  # fmt: skip
    monkeypatch.setattr(doctor, 'distributions', lambda: found)
    monkeypatch.setattr(doctor, 'installed', only(**{one: '4.12.0'}))
    finding = doctor.check_opencv()
    assert finding.level == 'ok'
    assert '`pip check` names a, d, ' in finding.text
    monkeypatch.setattr(doctor, 'import_module', lambda name: exec('raise ImportError("libGL")'))
    assert doctor.check_opencv().level == 'failure'


def test_upstream_mmcv_with_numpy_2(monkeypatch):
    monkeypatch.setattr(doctor, 'installed', only(numpy='2.2.6', mmcv='2.1.0'))
    assert doctor.check_numpy().level == 'failure'


def test_absent_data_folder(tmp_path):
    assert doctor.check_disk(str(tmp_path / 'absent')).level == 'failure'


def run_doctor(**environment):
    command, environment = [sys.executable, '-m', 'ttl_mm', 'doctor'], {**os.environ, **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_this_installation_is_healthy():
    result = run_doctor()
    assert result.returncode == 0, result.stdout + result.stderr


def test_broken_pair_without_the_guard():
    """With the guard off the exit code must follow whether torchvision itself imports."""
    imports = subprocess.run([sys.executable, '-c', 'import torchvision'], capture_output=True)
    result = run_doctor(TTL_TORCHVISION_GUARD='0')
    assert result.returncode == (0 if imports.returncode == 0 else 1)
    if imports.returncode:
        assert 'same kind (CPU or CUDA)' in result.stdout
