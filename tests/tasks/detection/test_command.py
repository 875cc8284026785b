"""``ttl detect check`` that fails; tests/projects/test_detection_runs.py has one that succeeds."""

import ttl_mm.registry  # noqa: F401  isort: skip

from pathlib import Path

import pytest
import torch

from tests.helpers.checkpoints import make_resnet
from tests.helpers.detection_data import write_voc
from tests.helpers.paths import ROOT
from ttl_mm.cli import main

CONFIG = str(ROOT / 'projects/detection/configs/faster-rcnn_r50-c4_24k_voc0712.py')
YEARS = ('VOC2007', 'VOC2012')


@pytest.fixture
def voc(tmp_path: Path, monkeypatch) -> Path:
    from mmdet.datasets import VOCDataset

    root = write_voc(tmp_path, 1, 1, VOCDataset.METAINFO['classes'], YEARS)
    monkeypatch.setenv('VOC_ROOT', str(root))
    return root


def test_res5_from_elsewhere_is_an_error(voc: Path, capsys) -> None:
    """What mmdet's own configs do: the backbone is loaded, and res5 starts at random."""
    checkpoint = str(voc / 'r18.pth')
    torch.save(make_resnet(18).state_dict(), checkpoint)
    options = [f'model.backbone.init_cfg.checkpoint={checkpoint}', 'model.backbone.depth=18']
    options += [f'model.roi_head.shared_head.{change}' for change in ('depth=18', 'init_cfg=None')]
    args = ['detect', 'check', CONFIG, '--checkpoint', checkpoint, '--cfg-options', *options]
    assert main(args) == 2
    captured = capsys.readouterr()
    assert captured.out.count('images: 1, objects: 2') == 3
    assert f'backbone: 75 of 75 tensors equal those of {checkpoint}' in captured.out
    assert 'tensors of res5 do not start from' in captured.err


def test_bad_data_is_reported_before_the_model_is_built(voc: Path, capsys) -> None:
    (voc / 'VOC2012' / 'JPEGImages' / 'trainval000.jpg').unlink()
    no_weights = __file__  # a file, so that the command line passes
    assert main(['detect', 'check', CONFIG, '--checkpoint', no_weights]) == 2
    captured = capsys.readouterr()
    assert 'ERROR: 1 x missing image file: trainval000.jpg' in captured.out
    assert 'cannot be used' in captured.err
