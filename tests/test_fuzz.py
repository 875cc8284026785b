"""The fuzzer itself: its findings are findings, and a minute of it finds nothing."""

import ast
import os
import re
import subprocess
import sys
import time

import pytest

from tests.helpers.paths import ROOT

FUZZ = [sys.executable, str(ROOT / 'tools' / 'fuzz.py')]


# Each number stands for one way to misbehave. A process of its own: a fork of a test process, which
# has threads and a handler of crashes, could wait for a lock that nobody gives back.
MISBEHAVE = """
import os, resource, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import fuzz
from ttl_mm.errors import UserError

seeds = [b'0123456789' * 20]
mutants = [fuzz.mutant(seeds, 0, number) for number in range(50)]
assert mutants == [fuzz.mutant(seeds, 0, number) for number in range(50)]
assert len(set(mutants)) > 45

fuzz.MAX_SECONDS, fuzz.PATIENCE, fuzz.MAX_BYTES = 1, 3, 2 * 10**7
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

def refuse(): raise UserError('refused')
def fail(): raise KeyError('a bug')
def crash(): os.kill(os.getpid(), signal.SIGSEGV)
def dawdle(): time.sleep(60)
def wait_deaf():
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    time.sleep(60)
def fill(): bytes(range(256)) * 2**18

ways = [lambda: None, refuse, fail, crash, dawdle, wait_deaf, fill]
fuzz.mutant = lambda seeds, seed, number: b'%d' % number
reader = fuzz.Reader('test', seeds, lambda path: ways[int(path.read_bytes())](), 'a')
print(fuzz.fuzz(reader, 0, None, len(ways), Path(sys.argv[2])))
"""


def test_mutants_can_be_made_again_and_every_kind_of_finding_is_counted(tmp_path):
    command = [sys.executable, '-c', MISBEHAVE, str(ROOT / 'tools'), str(tmp_path)]
    environment = {k: v for k, v in os.environ.items() if k != 'PYTHONFAULTHANDLER'}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    counts = {'read': 1, 'refused': 1, 'other': 1, 'signal': 1, 'slow': 2, 'large': 1}
    assert ast.literal_eval(done.stdout.splitlines()[-1]) == counts
    assert {path.stem for path in tmp_path.glob('*.bin')} == {f'test-0-{i}' for i in range(2, 7)}


@pytest.mark.faults
def test_a_minute_of_fuzzing_every_reader_finds_nothing(tmp_path):
    seed = str(int(time.time()))  # printed, so that a finding can be made again
    command = [*FUZZ, '--seconds', '60', '--seed', seed, '--out', str(tmp_path / 'found')]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f'seed {seed}\n{done.stdout}'
    assert re.search(r'^0 findings', done.stdout, re.MULTILINE)
