"""Without the compiled ops, detection ends with a sentence that names the remedy."""

import subprocess
import sys

import pytest

from tests.helpers.paths import ROOT
from ttl_mm.errors import UserError
from ttl_mm.tasks.detection.requirements import require_detection


def test_missing_ops_are_one_sentence(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, 'mmcv._ext', None)
    with pytest.raises(UserError, match=r"mmcv's compiled ops.*run `make full`"):
        require_detection()


def test_training_without_ops_names_the_command() -> None:
    config = 'projects/detection/configs/faster-rcnn_r50-c4_24k_voc0712.py'
    code = (
        'import runpy, sys; sys.modules["mmcv._ext"] = None; '
        f'sys.argv = ["train.py", "{config}"]; '
        'runpy.run_path("tools/train.py", run_name="__main__")'
    )
    run = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 2
    assert 'make full' in run.stderr
    assert 'Traceback' not in run.stderr
