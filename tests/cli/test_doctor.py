"""``ttl doctor --train``: one line per check, JSON, exit code."""

import json

import pytest

from ttl_mm import selftest
from ttl_mm.cli import main
from ttl_mm.selftest import FAIL, NOT_APPLICABLE, PASS, Check, Report

MACHINE = {'gpus': [], 'cores': 2, 'config': 'recipe.py', 'ranks': 2}


@pytest.fixture
def doctor(monkeypatch, tmp_path):
    """A function that runs the command on a machine with these checks; code and arguments."""

    def examine(*checks, options=()):
        calls = []

        def run(*args, **kwargs):
            calls.append((*args, kwargs))
            return Report(MACHINE, list(checks), [], {}, 1.0)

        monkeypatch.setattr(selftest, 'run_selftest', run)
        return main(['doctor', '--train', *options]), calls[0]

    return examine


def test_lines_and_exit_code(doctor, capsys):
    good, none = Check('resume', PASS, 'bit by bit'), Check('nccl', NOT_APPLICABLE, 'no GPU')
    assert doctor(good, none)[0] == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ['pass', 'resume', 'bit', 'by', 'bit']
    assert lines[1].startswith('not applicable  nccl ')
    bad = Check('speed', FAIL, '90% waiting', 'more workers')
    assert doctor(good, bad)[0] == 1
    out = capsys.readouterr().out
    assert '90% waiting. Remedy: more workers' in out
    assert '1 of 2 checks failed' in out


def test_options_and_json(doctor, tmp_path):
    config, out = tmp_path / 'config.py', tmp_path / 'report.json'
    config.write_text('')
    options = [str(config), '--gpus', '3', '--amp', 'fp16', '--compile', '--out', str(out)]
    code, call = doctor(Check('speed', FAIL, 'slow', 'x'), options=options)
    assert code == 1
    networks = {'compile': True, 'checkpoint_activations': False}
    assert call == (str(config), 3, '.', {'amp': 'fp16', **networks})
    report = json.loads(out.read_text())
    assert report['checks'] == [{'name': 'speed', 'status': 'fail', 'found': 'slow', 'remedy': 'x'}]
    assert report['machine'] == MACHINE
