"""The fuzzer itself: its findings are findings, and a minute of it finds nothing."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.helpers.paths import ROOT
from ttl_mm.errors import UserError

FUZZ = [sys.executable, str(ROOT / 'tools' / 'fuzz.py')]


@pytest.fixture
def fuzz(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools'))
    import fuzz

    return fuzz


def test_mutants_can_be_made_again_and_every_kind_of_finding_is_counted(
    fuzz, tmp_path, monkeypatch
):
    seeds = [b'0123456789' * 20]
    mutants = [fuzz.mutant(seeds, 0, number) for number in range(50)]
    assert mutants == [fuzz.mutant(seeds, 0, number) for number in range(50)]
    assert len(set(mutants)) > 45
    monkeypatch.setattr(fuzz, 'MAX_SECONDS', 2)
    monkeypatch.setattr(fuzz, 'MAX_BYTES', 10**8)

    def misbehave(path):
        number = int(path.read_bytes()[:1] or b'0', 36) % 6
        if number == 0:
            raise UserError('refused')
        if number == 1:
            raise KeyError('a bug')
        if number == 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        if number == 3:
            time.sleep(9)
        if number == 4:
            bytes(range(256)) * 2**20

    monkeypatch.setattr(fuzz, 'mutant', lambda seeds, seed, number: b'%d' % number)
    reader = fuzz.Reader('test', seeds, misbehave, 'a')
    counts, _ = fuzz.fuzz(reader, 0, None, 6, tmp_path / 'found')
    assert counts == {'read': 1, 'refused': 1, 'other': 1, 'signal': 1, 'slow': 1, 'large': 1}
    assert len(list((tmp_path / 'found').glob('*.bin'))) == 4


@pytest.mark.faults
def test_a_minute_of_fuzzing_every_reader_finds_nothing(tmp_path):
    seed = str(int(time.time()))  # printed, so that a finding can be made again
    command = [*FUZZ, '--seconds', '60', '--seed', seed, '--out', str(tmp_path / 'found')]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f'seed {seed}\n{done.stdout}'
    assert re.search(r'^0 findings', done.stdout, re.MULTILINE)
