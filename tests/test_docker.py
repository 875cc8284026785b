"""The Dockerfiles, which we cannot build: hadolint accepts them, and all they name exists."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from ttl_mm.cli import build_parser

FILES = sorted((ROOT / 'docker').glob('Dockerfile.*'))


def instructions(path, word):
    text = re.sub(r'\\\n', ' ', path.read_text())
    return re.findall(rf'^{word} (.*)$', text, re.MULTILINE)


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.suffix[1:])
def test_hadolint_has_nothing_to_say(path):
    hadolint = Path(sys.executable).with_name('hadolint')  # of this environment
    done = subprocess.run([hadolint, path], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, '')


@pytest.mark.parametrize('path', FILES, ids=lambda path: path.suffix[1:])
def test_what_is_copied_and_called_exists(path):
    copied = {word for line in instructions(path, 'COPY') for word in line.split()[:-1]}
    assert [name for name in copied if not (ROOT / name).exists()] == []
    needed = {'LICENSE', 'README.md', 'setup.cfg', 'setup.py', 'ttl_mm', 'configs', 'projects'}
    assert needed <= copied  # what the metadata and the wheel take
    (kind,) = re.findall(r'requirements/install\.py (\w+)', ' '.join(instructions(path, 'RUN')))
    assert kind in ('light', 'full')
    assert instructions(path, 'ENTRYPOINT') == ['["ttl"]']
    (command,) = re.findall(r'\["(\w+)"\]', instructions(path, 'CMD')[0])
    build_parser().parse_args([command])


def test_there_is_one_for_a_cpu_and_one_for_gpus():
    assert [path.name for path in FILES] == ['Dockerfile.cpu', 'Dockerfile.cuda']
