import json
import os

import pytest
from mmengine.config import Config

from tests.helpers.paths import RECIPES, ROOT
from ttl_mm.config import merge_options, read_config
from ttl_mm.errors import UserError

BASE = """
lr = 0.1
optim_wrapper = dict(optimizer=dict(type='SGD', lr=lr))
param_scheduler = [dict(type='LinearLR', end=5)]
train_cfg = dict(max_epochs=2)
"""
MAIN = ROOT / 'configs/ttl_r50_8xb104_200e.py'


@pytest.fixture
def config(tmp_path):
    (tmp_path / 'config.py').write_text(BASE)
    return tmp_path / 'config.py'


def test_options_are_merged_and_a_key_that_is_not_there_is_an_error(config):
    read = read_config(config, {'optim_wrapper.optimizer.lr': 0.2, 'param_scheduler.0.end': 7})
    assert read.optim_wrapper.optimizer.lr == 0.2
    assert read.param_scheduler[0].end == 7
    read = read_config(config, {'+optim_wrapper.clip_grad.max_norm': 1.0})
    assert read.optim_wrapper.clip_grad.max_norm == 1.0
    for key, message in {
        'optim_wrapper.optimizer.lrr': "Did you mean 'lr'",
        'optim_wraper.optimizer.lr': "Did you mean 'optim_wrapper'",
        'optimizer.lr': "Did you mean 'optim_wrapper'",
        'param_scheduler.1.end': 'list of 1',
        'train_cfg.max_epochs.x': 'max_epochs is 2',
        'lr': 'would change nothing',
    }.items():
        with pytest.raises(UserError, match=message):
            read_config(config, {key: 1})
    recipe = Config.fromfile(MAIN)
    with pytest.raises(UserError, match="Did you mean 'target_momentum'"):
        merge_options(recipe, {'model.target_momentun': 0.9})


def test_a_name_that_nothing_reads_is_an_error_with_the_nearest(config, tmp_path):
    config.write_text(BASE + 'optim_wraper = dict()\n')
    with pytest.raises(UserError, match=r"config.py:6: .*Did you mean 'optim_wrapper'"):
        read_config(config)
    copy = tmp_path / 'copy.py'  # as a run writes it into its work dir
    read_config(MAIN).dump(copy)
    copy.write_text(copy.read_text() + '\nmodle = dict()\n')
    with pytest.raises(UserError, match=r"nothing reads 'modle'\. Did you mean 'model'"):
        read_config(copy)
    child = config.with_name('child.py')
    config.write_text(BASE)
    child.write_text("_base_ = 'config.py'\nlr = 0.5\n")  # the base has read its own before
    with pytest.raises(UserError, match="nothing reads 'lr'"):
        read_config(child)


@pytest.mark.parametrize('path', RECIPES, ids=lambda path: path.stem)
def test_the_copy_in_a_work_dir_is_the_same_config(path, tmp_path):
    original, copy = read_config(path), tmp_path / path.name
    original.dump(copy)
    assert read_config(copy).to_dict() == original.to_dict()


def test_only_python_files_that_parse_are_read_and_no_pickled_annotations(tmp_path, config):
    with pytest.raises(UserError, match='not a file'):
        read_config(tmp_path / 'none.py')
    for name in ('config.yaml', 'config.yml', 'config.json'):
        (tmp_path / name).write_text(json.dumps({'train_cfg': {'max_epochs': 2}}))
        with pytest.raises(UserError, match='refused'):
            read_config(tmp_path / name)
    config.write_text('train_cfg = dict(\n')
    with pytest.raises(UserError, match=r'config\.py cannot be read: .*never closed'):
        read_config(config)
    for name in ('train.pkl', 'train.PICKLE'):
        config.write_text(BASE + f"train_dataloader = dict(dataset=dict(ann_file='{name}'))\n")
        with pytest.raises(UserError, match=r'train_dataloader\.dataset\.ann_file'):
            read_config(config)


def test_a_base_that_is_no_python_and_pipes_are_refused(tmp_path):
    trace = tmp_path / 'ran'
    (tmp_path / 'evil.yaml').write_text(f'model: !!python/object/apply:os.mkdir [{trace}]')
    (tmp_path / 'inner.py').write_text("_base_ = ['evil.yaml']\n")
    for base in ("'evil.yaml'", "['inner.py']", "('evil.yaml', 'inner.py')"):
        (tmp_path / 'a.py').write_text(f'_base_ = {base}\n')
        with pytest.raises(UserError, match=r"_base_ 'evil\.yaml', which is refused"):
            read_config(tmp_path / 'a.py')
    assert not trace.exists()
    os.mkfifo(tmp_path / 'pipe.py')
    (tmp_path / 'bytes.py').write_bytes(b'\xff')
    (tmp_path / 'deep.py').write_bytes(b'x = ' + b'(' * 10_000)
    for name in ('pipe.py', 'bytes.py', 'deep.py'):
        with pytest.raises(UserError, match=name):
            read_config(tmp_path / name)
