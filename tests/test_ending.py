"""Every end of a command: its code, and one line."""

import errno
import os
import subprocess
import sys

import pytest

from ttl_mm.ending import one_line, run_command, system_error
from ttl_mm.errors import UserError
from ttl_mm.version import __version__


@pytest.fixture
def end(capsys):
    """A function that ends a command by an error; returns the code and the line."""

    def run(error, **options):
        def job():
            raise error

        code = run_command(job, **options)
        (line,) = capsys.readouterr().err.splitlines()
        return code, line

    return run


def test_a_job_that_returns_is_silent(capsys):
    assert run_command(lambda: None) == 0
    assert run_command(lambda: 1) == 1
    assert capsys.readouterr().err == ''


def test_what_the_user_can_correct(end):
    assert end(UserError('no\nimages'), name='ttl eval') == (2, 'ttl eval: no images')
    assert end(UserError('no images')) == (2, 'error: no images')
    code, line = end(KeyboardInterrupt())
    assert code == 130
    assert 'interrupted' in line


def test_what_the_system_lacks_or_forbids(end):
    for number, remedy in {
        errno.ENOSPC: 'make room',
        errno.EACCES: 'permissions',
        errno.EROFS: 'read-only',
        errno.EFBIG: 'ulimit -f',
        errno.EMFILE: 'ulimit -n',
        errno.ENAMETOOLONG: 'shorter',
        errno.EXDEV: 'try again',
    }.items():
        code, line = end(OSError(number, os.strerror(number), '/disk/a'), name='ttl eval')
        assert code == 2
        assert line.startswith(f'ttl eval: /disk/a: {os.strerror(number)}: ')
        assert remedy in line
    wrapped = RuntimeError('[enforce fail at inline_container.cc:672]')
    wrapped.__context__ = OSError(errno.ENOSPC, 'No space left on device')
    assert system_error(wrapped).startswith('No space left on device: make room')
    assert 'make room' in system_error(Exception('I/O error: No space (os error 28)'))
    assert 'out of memory' in system_error(MemoryError())
    assert 'set HOME' in system_error(RuntimeError('Could not determine home directory.'))


def test_a_package_that_is_not_installed_is_no_bug(end):
    code, line = end(ModuleNotFoundError('x', name='absent_package.part'), name='ttl train')
    assert code == 2
    assert line.startswith('ttl train: the package absent_package is not installed: `ttl doctor`')
    assert 'onedl-mmengine' in line
    code, line = end(ModuleNotFoundError('x', name='numpy.absent'))
    assert code == 1
    assert 'a bug of ttl_mm' in line


def test_a_bug_leaves_its_traceback_in_a_file(end, tmp_path, monkeypatch):
    code, line = end(KeyError('img'), name='ttl eval', folder=tmp_path)
    (path,) = tmp_path.glob('ttl_mm-error-*.txt')
    assert code == 1
    assert line.startswith("ttl eval: a bug of ttl_mm (KeyError: 'img')")
    assert f'The traceback is in {path}: please open an issue with it.' in line
    text = path.read_text()
    assert __version__ in text
    assert "raise error\nKeyError: 'img'" in text
    # the folder of a run that was never made: the temporary one
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path))
    assert str(tmp_path) in end(KeyError('img'), folder=tmp_path / 'none')[1]
    monkeypatch.setattr('tempfile.tempdir', str(tmp_path / 'none'))
    assert 'raise error KeyError' in end(KeyError('img'))[1]


def test_nothing_in_a_message_acts_on_the_terminal():
    assert one_line('a\x1b[31m\nb\u202e é') == 'a\\x1b[31m b\\u202e é'


def test_a_reader_that_has_seen_enough():
    code = 'import sys; from ttl_mm.ending import run_command\n'
    code += 'sys.exit(run_command(lambda: print("x" * 10**6)))'
    job = subprocess.Popen(
        [sys.executable, '-c', code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    job.stdout.read(1)
    job.stdout.close()
    assert (job.wait(20), job.stderr.read()) == (141, b'')
    job.stderr.close()
