"""Files from strangers: nothing in a checkpoint, or in a config that is not Python, is executed."""

import os
import pickle
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from tests.helpers.toy_run import log_file, make_images, run, write_config
from ttl_mm.checkpoint.sealed import newest_valid, read_sealed, write_checkpoint
from ttl_mm.engine.state.exit_codes import PREEMPTED, USER_ERROR


class Payload:
    """Leaves a trace when unpickled."""

    def __init__(self, canary) -> None:
        self.canary = str(canary)

    def __reduce__(self):
        return os.mkdir, (self.canary,)


@pytest.fixture(scope='module')
def images(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp('images'))


@pytest.fixture
def canary(tmp_path):
    return tmp_path / 'canary'


@pytest.fixture
def hostile(tmp_path, canary):
    """A checkpoint with a payload."""
    path = tmp_path / 'hostile.pth'
    torch.save({'state_dict': {'neck.bias': torch.ones(6)}, 'meta': Payload(canary)}, path)
    return path


@pytest.fixture
def server(tmp_path):
    """Address of a server of the files in tmp_path."""
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(('127.0.0.1', 0), handler) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f'http://127.0.0.1:{http.server_port}'
        http.shutdown()


def test_the_payload_is_live(canary):
    pickle.loads(pickle.dumps(Payload(canary)))
    assert canary.exists()


def assert_refused(tmp_path, canary, codes):
    assert codes == [USER_ERROR]
    assert not canary.exists()
    errors = [line for line in log_file(tmp_path / 'work').read_text().splitlines()
              if line.startswith('error: ')]  # fmt: skip
    assert len(errors) == 1


def start_from(path):
    return f'\nload_from = {str(path)!r}\n'


def initialize_from(path):
    init = f"dict(type='Pretrained', checkpoint={str(path)!r})"
    return f'\nmodel.update(init_cfg={init})\n'


@pytest.mark.parametrize('use', [start_from, initialize_from])
@pytest.mark.parametrize('kind', ['file', 'old format', 'address'])
def test_weights_that_are_a_pickle(tmp_path, images, canary, hostile, server, kind, use):
    if kind == 'old format':
        content = {'state_dict': {}, 'meta': Payload(canary)}
        torch.save(content, hostile, _use_new_zipfile_serialization=False)
    source = f'{server}/{hostile.name}' if kind == 'address' else hostile
    config = write_config(tmp_path / 'config.py', images, more=use(source))
    assert_refused(tmp_path, canary, run(config, tmp_path / 'work'))


def test_resume_of_a_pickle(tmp_path, images, canary, hostile):
    config = write_config(tmp_path / 'config.py', images)
    assert_refused(tmp_path, canary, run(config, tmp_path / 'work', resume=str(hostile)))


def test_resume_of_a_sealed_pickle(tmp_path, images, canary):
    (tmp_path / 'work').mkdir()
    write_checkpoint(tmp_path / 'work' / 'iter_3.pth', {'meta': Payload(canary)}, 3, 0)
    config = write_config(tmp_path / 'config.py', images)
    assert_refused(tmp_path, canary, run(config, tmp_path / 'work'))


@pytest.mark.parametrize('key', ['cfg', 'config'])
def test_text_in_a_checkpoint_is_not_executed(tmp_path, images, canary, key):
    stop = "\ncustom_hooks = [dict(type='SignalHook', at=6)]\n"
    config = write_config(tmp_path / 'config.py', images, more=stop)
    assert run(config, tmp_path / 'work') == [PREEMPTED]
    path, _ = newest_valid(tmp_path / 'work')
    state = read_sealed(path)
    state['meta'][key] = f'import os\nos.mkdir({str(canary)!r})\n'
    write_checkpoint(path, state, 6, 1)
    config = write_config(tmp_path / 'config.py', images)
    assert run(config, tmp_path / 'work') == [0]
    assert not canary.exists()


CONFIGS = {
    'object.yaml': 'model: !!python/object/apply:os.mkdir [{canary}]',
    'module.yml': 'model: {{type: os.mkdir, path: {canary}}}',
    'type.json': '{{"model": {{"type": "os.mkdir", "path": "{canary}"}}}}',
    'base.yaml': '_base_: evil.py',
}


@pytest.mark.parametrize('name', CONFIGS)
def test_configs_that_are_not_python(tmp_path, canary, name):
    (tmp_path / 'evil.py').write_text(f'import os\nos.mkdir({str(canary)!r})\n')
    (tmp_path / name).write_text(CONFIGS[name].format(canary=canary))
    assert_refused(tmp_path, canary, run(tmp_path / name, tmp_path / 'work'))


def test_pickled_annotations(tmp_path, images, canary):
    (tmp_path / 'train.pkl').write_bytes(pickle.dumps(Payload(canary)))
    dataset = f"dict(type='CustomDataset', ann_file={str(tmp_path / 'train.pkl')!r})"
    more = f'\ntrain_dataloader.update(dataset={dataset})\n'
    config = write_config(tmp_path / 'config.py', images, more=more)
    assert_refused(tmp_path, canary, run(config, tmp_path / 'work'))
