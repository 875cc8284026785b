"""Files from strangers: nothing in a checkpoint, or in a config that is not Python, is executed."""

import pickle
import subprocess
import sys

import pytest
import torch

from tests.helpers.checkpoints import RunsCode
from tests.helpers.server import Server
from tests.helpers.toy_run import STOP, log_file, run
from ttl_mm.checkpoint.sealed import newest_valid, read_sealed, write_checkpoint
from ttl_mm.engine.runner.runner import Runner
from ttl_mm.engine.state.exit_codes import PREEMPTED, USER_ERROR
from ttl_mm.engine.state.train_state import check_state
from ttl_mm.errors import UserError


@pytest.fixture
def trace(tmp_path):
    """The folder that the code in a hostile file would make."""
    return tmp_path / 'ran'


@pytest.fixture
def hostile(tmp_path, trace):
    path = tmp_path / 'hostile.pth'
    torch.save({'state_dict': {'neck.bias': torch.ones(6)}, 'meta': RunsCode(trace)}, path)
    return path


@pytest.fixture
def assert_refused(tmp_path, trace):
    def check(codes, work='work'):
        assert codes == [USER_ERROR]
        assert not trace.exists()
        lines = log_file(tmp_path / work).read_text().splitlines()
        assert sum(line.startswith('error: ') for line in lines) == 1

    return check


def test_the_code_would_run(trace):
    pickle.loads(pickle.dumps(RunsCode(trace)))
    assert trace.exists()


def test_weights_that_are_a_pickle(tmp_path, toy, trace, hostile, assert_refused):
    old = tmp_path / 'old_format.pth'
    content = {'state_dict': {}, 'meta': RunsCode(trace)}
    torch.save(content, old, _use_new_zipfile_serialization=False)
    with Server(hostile.read_bytes()) as server:
        for i, source in enumerate([str(hostile), str(old), server.url]):
            assert_refused(toy(f'{i}', more=f'load_from = {source!r}'), f'{i}')
            init = {'type': 'Pretrained', 'checkpoint': source}
            assert_refused(toy(f'init_{i}', more=f'model.update(init_cfg={init})'), f'init_{i}')


def test_resume_of_a_pickle(tmp_path, toy, trace, hostile, assert_refused):
    assert_refused(toy(resume=str(hostile)))
    (tmp_path / 'sealed').mkdir()
    write_checkpoint(tmp_path / 'sealed' / 'iter_3.pth', {'meta': RunsCode(trace)}, 3, 0)
    assert_refused(toy('sealed'), 'sealed')


def test_what_a_stranger_sealed_is_no_checkpoint_of_a_run(tmp_path):
    settings = {
        'world_size': 1, 'batch_size_per_rank': 4, 'images': 22, 'iterations_per_epoch': 5,
        'accumulative_counts': 1, 'seed': 0,
    }  # fmt: skip
    good = {
        'meta': {'epoch': 1, 'iter': 3}, 'state_dict': {}, 'optimizer': {}, 'param_schedulers': [],
        'message_hub': {'runtime_info': {}},
        'ttl_mm': {'ranks': [], 'hooks': {}, 'settings': settings, 'config': '{}'},
    }  # fmt: skip
    check_state(good, 'a.pth')
    for change in (
        {'meta': None}, {'meta': {'epoch': '1', 'iter': 3}}, {'state_dict': [1]}, {'ttl_mm': {}},
        {'message_hub': {}}, {'ttl_mm': {**good['ttl_mm'], 'config': '['}},
        {'ttl_mm': {**good['ttl_mm'], 'config': '[]'}}, {'ttl_mm': {**good['ttl_mm'], 'ranks': {}}},
        {'ttl_mm': {**good['ttl_mm'], 'settings': {}}},
    ):  # fmt: skip
        with pytest.raises(
            UserError, match=r'^a\.pth .*(no checkpoint|config is damaged|settings are damaged)'
        ):
            check_state({**good, **change}, 'a.pth')


def test_a_sealed_file_without_a_run_is_refused(tmp_path, toy, assert_refused):
    (tmp_path / 'work').mkdir()
    write_checkpoint(tmp_path / 'work' / 'iter_3.pth', {'a': 1}, 3, 0)
    assert_refused(toy())


def test_a_list_that_is_no_list_of_images(tmp_path, toy, assert_refused):
    (tmp_path / 'train.txt').write_text('a.jpg one\nb.jpg\n')
    dataset = {'type': 'CustomDataset', 'ann_file': str(tmp_path / 'train.txt')}
    assert_refused(toy(more=f'train_dataloader.update(dataset={dataset})'))


def test_workers_that_are_not_forked_have_the_guards():
    """What a spawned worker is given leads to the registry, before it reads anything."""
    loader = Runner.build_dataloader(
        {
            'dataset': {'type': 'ttl_mm.Digits', 'pipeline': []},
            'sampler': {'type': 'DefaultSampler', 'shuffle': False},
            'batch_size': 1,
        }
    )
    start = pickle.dumps(loader.worker_init_fn)
    code = (
        'import pickle, sys; pickle.loads(sys.stdin.buffer.read()); '
        'import mmcv; assert hasattr(mmcv.imfrombytes, "__wrapped__")'
    )
    done = subprocess.run([sys.executable, '-c', code], input=start, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_text_in_a_checkpoint_is_not_executed(tmp_path, toy, trace):
    assert toy(more=STOP.format(6)) == [PREEMPTED]
    path, _ = newest_valid(tmp_path / 'work')
    state = read_sealed(path)
    code = f'import os\nos.makedirs({str(trace)!r}, exist_ok=True)\n'
    state['meta'].update(cfg=code, config=code)
    write_checkpoint(path, state, 6, 1)
    assert toy() == [0]
    assert not trace.exists()


def test_configs_that_are_not_python(tmp_path, trace, assert_refused):
    (tmp_path / 'evil.py').write_text(f'import os\nos.mkdir({str(trace)!r})\n')
    for name, text in {
        'object.yaml': f'model: !!python/object/apply:os.mkdir [{trace}]',
        'module.yml': f'model: {{type: os.mkdir, path: {trace}}}',
        'type.json': f'{{"model": {{"type": "os.mkdir", "path": "{trace}"}}}}',
        'base.yaml': '_base_: evil.py',
    }.items():
        (tmp_path / name).write_text(text)
        assert_refused(run(tmp_path / name, tmp_path / f'{name}_work'), f'{name}_work')


def test_pickled_annotations(tmp_path, toy, trace, assert_refused):
    (tmp_path / 'train.pkl').write_bytes(pickle.dumps(RunsCode(trace)))
    dataset = {'type': 'CustomDataset', 'ann_file': str(tmp_path / 'train.pkl')}
    assert_refused(toy(more=f'train_dataloader.update(dataset={dataset})'))
