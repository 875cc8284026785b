"""Without the compiled ops, detection ends with a sentence that names the remedy."""

import sys

import pytest

from tests.helpers.paths import ROOT
from ttl_mm.engine.runner.launch import exit_code, train
from ttl_mm.errors import UserError
from ttl_mm.tasks.detection.requirements import require_detection


def test_missing_ops_are_one_sentence(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, 'mmcv._ext', None)
    monkeypatch.delitem(sys.modules, 'ttl_mm.tasks.detection.parts', raising=False)
    with pytest.raises(UserError, match=r"mmcv's compiled ops.*run `make full`"):
        require_detection()

    config = ROOT / 'projects/detection/configs/faster-rcnn_r50-c4_24k_voc0712.py'
    assert exit_code(lambda: train(str(config))) == 2
    error = capsys.readouterr().err
    assert 'make full' in error
    assert 'Traceback' not in error
