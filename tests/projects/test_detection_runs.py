"""Both detectors by the shipped configs, in the sizes of smoke.py and with a narrow ResNet-18."""

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from runpy import run_path

import pytest
import torch
from mmdet.datasets import CocoDataset, VOCDataset
from mmdet.registry import DATASETS, MODELS

import ttl_mm.tasks.detection.parts  # noqa: F401 registers what the configs name
from tests.helpers.checkpoints import assert_bit_equal, below, make_resnet
from tests.helpers.detection_data import write_coco, write_voc
from tests.helpers.paths import ROOT
from tests.helpers.toy_run import free_port, run
from ttl_mm.checkpoint.load import load_backbone_state
from ttl_mm.checkpoint.sealed import read_sealed
from ttl_mm.cli import main
from ttl_mm.config import read_config
from ttl_mm.engine.runner import launch
from ttl_mm.errors import UserError

CONFIGS = ROOT / 'projects' / 'detection' / 'configs'
SMOKE = run_path(str(CONFIGS.parent / 'smoke.py'))
COCO, VOC = 'mask-rcnn_r50-c4_2x_coco', 'faster-rcnn_r50-c4_24k_voc0712'


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory) -> Path:
    """A pre-training checkpoint of a narrow ResNet-18 with statistics that are not the default."""
    state = make_resnet(18, stem_channels=16, base_channels=16).state_dict()
    path = tmp_path_factory.mktemp('pretrained') / 'epoch_1.pth'
    torch.save(dict(state_dict=below('backbone.', state)), path)
    return path


@pytest.fixture(scope='module')
def data(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp('data')
    write_coco(root, 4, 2, CocoDataset.METAINFO['classes'])
    write_voc(root, 2, 2, VOCDataset.METAINFO['classes'], years=('VOC2007', 'VOC2012'))
    return root


def small(name: str, data: Path, checkpoint: Path, monkeypatch) -> tuple[str, dict]:
    """A shipped config, and the options that bring it to a size for a CPU."""
    monkeypatch.setenv('COCO_ROOT', str(data / 'coco'))
    monkeypatch.setenv('VOC_ROOT', str(data / 'VOCdevkit'))
    options = SMOKE['options'](name) | {
        'model.backbone.depth': 18,
        '+model.backbone.base_channels': 16,
        '+model.backbone.stem_channels': 16,
        'model.backbone.init_cfg.checkpoint': str(checkpoint),
        'model.rpn_head.in_channels': 64,
        'model.rpn_head.feat_channels': 16,
        'model.roi_head.shared_head.depth': 18,
        '+model.roi_head.shared_head.base_channels': 16,
        'model.roi_head.shared_head.init_cfg.checkpoint': str(checkpoint),
        'model.roi_head.bbox_roi_extractor.out_channels': 64,
        'model.roi_head.bbox_head.in_channels': 128,
        'model.train_cfg.rpn_proposal.max_per_img': 32,
        'model.train_cfg.rcnn.sampler.num': 16,
        'train_cfg.val_interval': 2,
        '+train_cfg.val_begin': 1,
    }
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        options |= {f'{loader}.num_workers': 0, f'{loader}.persistent_workers': False}
    for key in options:
        if key.endswith(('.scale', '.scales')):
            options[key] = (120, 96) if key.endswith('.scale') else [(120, 96), (120, 112)]
    if 'mask' in name:
        options['model.roi_head.mask_head.in_channels'] = 128
        options['model.roi_head.mask_head.conv_out_channels'] = 16
    return str(CONFIGS / f'{name}.py'), options


def logged(work_dir: Path, key: str) -> list[int]:
    """The iterations at which ``key`` was logged."""
    logs = sorted(work_dir.glob('*/vis_data/scalars.json'))
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    return [line['step'] for line in lines if key in line]


def test_coco_train_save_resume_test(data, checkpoint, tmp_path, monkeypatch) -> None:
    config, options = small(COCO, data, checkpoint, monkeypatch)
    options['visualizer.name'] = work_dir = str(tmp_path)  # those of one name share a folder
    launch.train(config, work_dir, cfg_options=options)
    launch.train(config, work_dir, 'auto', cfg_options=options | {'train_cfg.max_iters': 3})
    assert logged(tmp_path, 'loss_mask') == [1, 2, 3]  # none repeated, none left out
    # the checkpoint of iteration 2 precedes its validation, which is then repeated
    assert logged(tmp_path, 'coco/bbox_mAP') == [2, 2, 3]

    figures = launch.run_test(config, str(tmp_path / 'iter_3.pth'), work_dir, cfg_options=options)
    wanted = {f'coco/{kind}_mAP{t}' for kind in ('bbox', 'segm') for t in ('', '_50', '_75')}
    assert wanted <= figures.keys()
    assert any(key.endswith('_precision') for key in figures)  # per class
    assert len(list((tmp_path / 'rendered').iterdir())) == 2


def calls_of(folder: Path, script: str, *arguments: str, **environment: str) -> list[list[str]]:
    """The arguments of each call of Python by a script of the project; a stand-in records them."""
    stand_in, calls = folder / 'python', folder / 'python.calls'
    stand_in.write_text('#!/bin/sh\nIFS="\t"\nprintf "%s\\n" "$*" >> "$0.calls"\n')
    stand_in.chmod(0o755)
    calls.unlink(missing_ok=True)
    subprocess.run(
        [str(CONFIGS.parent / script), *arguments],
        env=os.environ | {'PYTHON': str(stand_in), **environment}, check=True, timeout=60,
    )  # fmt: skip
    found = [line.split('\t') for line in calls.read_text().splitlines()]
    return [call for call in found if call[:2] != ['-P', '-c']]  # which asks for an option


def parsed(tool: str, call: list[str], monkeypatch) -> dict:
    """What a tool reads from its part of a recorded call."""
    place = next(i for i, argument in enumerate(call) if argument.endswith('.py'))
    assert call[place].endswith(f'tools/{tool}.py')
    monkeypatch.syspath_prepend(str(ROOT / 'tools'))
    monkeypatch.setenv('LOCAL_RANK', '0')
    monkeypatch.setattr(sys, 'argv', call[place:])
    arguments = run_path(call[place])['parse_args']()
    assert arguments.pop('work_dir') is None
    return arguments


def test_voc_by_the_scripts(data, checkpoint, tmp_path, monkeypatch, capsys) -> None:
    """What run.sh and test.sh call runs here, where mmdet is imported; see also the next test."""
    config, options = small(f'{VOC}_moco', data, checkpoint, monkeypatch)
    options['visualizer.name'] = tmp_path.name
    pairs = [f'{key}={value}'.replace(' ', '') for key, value in options.items()]
    work_dir, group = tmp_path / 'work', {'RANK': '0', 'LOCAL_RANK': '0', 'WORLD_SIZE': '1'}
    group |= {'MASTER_ADDR': '127.0.0.1', 'MASTER_PORT': str(free_port())}
    for more, environment in (('', {}), ('train_cfg.max_iters=3', {'RESUME': '1'})):
        check, training = calls_of(
            tmp_path, 'run.sh', config, str(checkpoint), '1', *pairs, *more.split(), **environment
        )
        assert check[:3] == ['-P', '-m', 'ttl_mm']
        assert main(check[3:]) == 0
        printed = capsys.readouterr().out
        assert f'backbone: 75 of 75 tensors equal those of {checkpoint}' in printed
        assert f'res5: 25 of 25 tensors equal those of {checkpoint}' in printed

        arguments = parsed('train', training, monkeypatch)
        assert arguments['launcher'] == 'pytorch'
        join = partial(os.environ.update, group)
        assert run(arguments.pop('config'), work_dir, prepare=join, **arguments) == [0]
    assert logged(work_dir, 'loss_rpn_cls') == [1, 2, 3]

    (call,) = calls_of(tmp_path, 'test.sh', config, str(work_dir / 'iter_3.pth'), *pairs)
    arguments = parsed('test', call, monkeypatch)
    figures = launch.run_test(work_dir=str(tmp_path / 'test'), **arguments)
    assert set(figures) == set(SMOKE['FIGURES'][VOC])
    (log,) = (tmp_path / 'test').glob('*/*.log')
    assert re.search(r'^tvmonitor +\d+ +\d+', log.read_text(), re.MULTILINE)  # table of classes
    assert len(list((tmp_path / 'test/rendered').iterdir())) == 2


@pytest.mark.faults
def test_voc_by_the_real_scripts(data, checkpoint, tmp_path, monkeypatch) -> None:
    """smoke.py starts run.sh, then with RESUME=1, and test.sh; it exits if one of them fails."""
    name, work_dir = f'{VOC}_moco', tmp_path / 'work'
    options = small(name, data, checkpoint, monkeypatch)[1]
    figures = SMOKE['run'](name, str(checkpoint), work_dir, options)
    assert all(0 <= figures[figure] <= 1 for figure in SMOKE['FIGURES'][VOC])
    assert logged(work_dir, 'loss_rpn_cls') == [1, 2, 3]
    assert read_sealed(work_dir / 'iter_3.pth')['meta']['iter'] == 3
    printed = (work_dir / 'smoke.log').read_text()
    assert printed.count(f'backbone: 75 of 75 tensors equal those of {checkpoint}') == 2
    assert 'Continuing after step 2.' in printed
    assert len(list((work_dir / 'rendered').iterdir())) == 2


def test_wrong_arguments_of_the_script(tmp_path) -> None:
    for arguments, message in (
        ((), 'run.sh CONFIG CHECKPOINT GPUS'),
        (('c', 'p', '3'), '3 GPUs cannot share the batch'),
    ):
        with pytest.raises(SystemExit, match=rf'{message}(.|\n)*ended with exit code 2'):
            SMOKE['call'](tmp_path / 'log', 'run.sh', *arguments)


def test_every_tensor_starts_from_the_checkpoint(data, checkpoint, monkeypatch) -> None:
    cfg = read_config(*small(VOC, data, checkpoint, monkeypatch))
    model = MODELS.build(cfg.model)
    model.init_weights()
    res5 = model.roi_head.shared_head
    own = model.backbone.state_dict() | res5.layer4.state_dict(prefix='layer4.')
    assert_bit_equal(own, load_backbone_state(checkpoint))
    assert (res5.norm.weight == 1).all()
    assert (res5.norm.bias == 0).all()

    cfg.model.backbone.init_cfg.checkpoint = None
    with pytest.raises(UserError, match=r'name the pre-training checkpoint.*run\.sh'):
        MODELS.build(cfg.model).init_weights()


def test_voc_is_one_dataset_with_difficult_objects(data, checkpoint, monkeypatch) -> None:
    """Without ignore_keys, metainfo would be a list; without our transform, half the objects go."""
    cfg = read_config(*small(VOC, data, checkpoint, monkeypatch))
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    assert len(dataset.metainfo['classes']) == 20
    assert len(dataset) == 4
    sample = dataset[0]['data_samples']
    assert len(sample.gt_instances) == 2  # one of them is difficult
    assert len(sample.ignored_instances) == 0
