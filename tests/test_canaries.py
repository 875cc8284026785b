"""Nothing in a file is executed, at every entrance that reads it, and nothing waits for ever.

A canary is a payload that leaves a trace if it runs. Each kind of file is given to each command
that reads this kind, in this process: the registry is imported, and no Runner is built before.
"""

import ast
import json
import os
import pickle
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from mmengine.runner import CheckpointLoader, load_checkpoint

import ttl_mm
from tests.helpers.checkpoints import RunsCode, make_resnet
from tests.helpers.detection_data import write_voc
from tests.helpers.images import encode, natural
from tests.helpers.loggers import forget_loggers
from tests.helpers.mask_data import write_voc_masks
from tests.helpers.odd_files import odd_files
from tests.helpers.parsers import leaves
from tests.helpers.paths import ROOT
from tests.helpers.work_dirs import write_start
from ttl_mm.cli import build_parser, main
from ttl_mm.errors import UserError
from ttl_mm.explore.tables import write_table
from ttl_mm.files.archives.write_tar import write_tar
from ttl_mm.registry import MODELS

WEIGHTS = str(ROOT / 'ttl_mm/zoo/weights/ttl_r18_digits-30d157f6.safetensors')


@pytest.fixture
def trace(tmp_path):
    return tmp_path / 'ran'


@pytest.fixture(autouse=True)
def alarm():
    """A reader that waits ends the test; loggers of earlier tests write to closed streams."""
    forget_loggers()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(60)
    yield
    signal.alarm(0)


def _too_long(*_):
    raise TimeoutError('a reader waits for ever')


@pytest.fixture
def images(tmp_path):
    """Enough to train on, as folders of classes in two splits."""
    content = encode(natural(32, 32))
    for name in ('train/a', 'train/b', 'val/a', 'val/b'):
        (tmp_path / 'images' / name).mkdir(parents=True)
        for number in range(8):
            (tmp_path / 'images' / name / f'{number}.jpg').write_bytes(content)
    return tmp_path / 'images'


def hostile_weights(folder, trace):
    """Files of weights that run code where they are read without care."""
    state = {'conv1.weight': torch.ones(1), 'layer1.0.conv1.weight': torch.ones(1)}
    torch.save({'state_dict': state, 'meta': RunsCode(trace)}, folder / 'zip.pth')
    old = {'_use_new_zipfile_serialization': False}
    torch.save({'state_dict': state, 'meta': RunsCode(trace)}, folder / 'old.pth', **old)
    (folder / 'plain.pth').write_bytes(pickle.dumps({'model': RunsCode(trace)}))
    (folder / 'a.pkl').write_bytes(pickle.dumps({'model': RunsCode(trace)}))
    (folder / 'a.onnx').write_bytes(pickle.dumps(RunsCode(trace)))
    (folder / 'a.safetensors').write_bytes(pickle.dumps(RunsCode(trace)))
    names = ('zip.pth', 'old.pth', 'plain.pth', 'a.pkl', 'a.onnx', 'a.safetensors')
    return [folder / name for name in names]


def test_the_payloads_are_alive(tmp_path, trace):
    """Whoever reads these files without care runs them: the canaries can die."""
    payload = tmp_path / 'a.npy'
    np.save(payload, np.array([RunsCode(trace)], object), allow_pickle=True)
    text = f'!!python/object/apply:os.mkdir [{trace}]'
    careless = [
        *(
            partial(torch.load, path, weights_only=False)
            for path in hostile_weights(tmp_path, trace)[:2]
        ),
        *(
            partial(pickle.loads, path.read_bytes())
            for path in hostile_weights(tmp_path, trace)[2:]
        ),
        partial(np.load, payload, allow_pickle=True),
        partial(yaml.unsafe_load, text),
        partial(eval, code_in_text(trace)),
    ]
    for read in careless:
        read()
        trace.rmdir()  # which fails if it is not there


def code_in_text(trace):
    return f'__import__("os").mkdir({str(trace)!r})'


OUT = ['--out', '{out}']
WEIGHT_COMMANDS = [
    ['import', '{}'],
    ['export', '{}', '--to', 'torchvision'],
    ['eval', '{}', '--data', '{images}', *OUT],
    ['analyze', '{}', '--data', '{images}', *OUT],
    ['reid', 'eval', '{}', '--data', '{images}', *OUT],
    ['zoo', 'publish', '{}', '--name', 'x', *OUT],
    ['compare', '{}', 'random', '--data', '{images}', *OUT],
    ['embed', '{images}', '--weights', '{}', '--out', '{out}.npy'],
    ['map', '{images}', '--weights', '{}', *OUT],
    ['duplicates', '{images}', '--weights', '{}', *OUT],
    ['select', '{images}', '--number', '1', '--weights', '{}', '--out', '{out}.txt'],
    ['search', '{images}/val/a/0.jpg', '--in', '{table}', '--weights', '{}'],
    ['train', '{images}', '--init', '{}', *OUT],
    ['finetune', '{images}', '--weights', '{}', *OUT],
    ['predict', '{images}', '--weights', '{}', '--out', '{out}.csv'],
    ['segment', 'train', '{masks}', '--weights', '{}', *OUT],
    ['segment', 'run', '{images}', '--weights', '{}', *OUT],
    ['detect', 'train', '{boxes}', '--weights', '{}', *OUT],
    ['detect', 'run', '{images}', '--weights', '{}', *OUT],
]


@pytest.mark.parametrize('command', WEIGHT_COMMANDS, ids=lambda command: ' '.join(command[:2]))
def test_weights_in_commands(command, tmp_path, trace, images, capsys):
    table = tmp_path / 'good.csv'
    sizes = np.ones((1, 3), int)
    write_table(table, ['train/a/0.jpg'], sizes, np.zeros((1, 2)), np.ones((1, 128)))
    values = {'images': images, 'out': tmp_path / 'out', 'good': WEIGHTS, 'table': table}
    if '{boxes}' in command:
        values['boxes'] = write_voc(tmp_path / 'boxes', 3, 2, ('red', 'green'))
    if '{masks}' in command:
        values['masks'] = write_voc_masks(tmp_path / 'masks', {'train': 4, 'val': 2})
    for path in [*hostile_weights(tmp_path, trace), *(p for _, p in odd_files(tmp_path))]:
        assert main([part.format(path, **values) for part in command]) == 2, path
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not trace.exists()


def test_every_command_with_weights_has_a_canary():
    """As an argument or option of that type; ``detect check`` has a test of its own."""
    kinds = {'weights', 'contestant', 'source'}
    named = lambda action: getattr(action.type, '__name__', '') in kinds  # noqa: E731
    parsers = [parser for parser in leaves(build_parser()) if any(map(named, parser._actions))]
    programs = {' '.join(parser.prog.split()[1:]) for parser in parsers} - {'detect check'}
    begin = {' '.join(command) for command in WEIGHT_COMMANDS}
    assert {p for p in programs if not any(line.startswith(f'{p} ') for line in begin)} == set()
    assert len(programs) == len(begin)


def test_weights_in_a_check_of_detection(tmp_path, trace, monkeypatch, capsys):
    """The config of mmdet's own kind, which the review attacked, and the file to compare with."""
    from mmdet.datasets import VOCDataset

    classes = VOCDataset.METAINFO['classes']
    root = write_voc(tmp_path, 1, 1, classes, ('VOC2007', 'VOC2012'))
    monkeypatch.setenv('VOC_ROOT', str(root))
    config = str(ROOT / 'projects/detection/configs/faster-rcnn_r50-c4_24k_voc0712.py')
    evil = str(hostile_weights(tmp_path, trace)[0])
    start = str({'type': 'Pretrained', 'checkpoint': evil})
    shared = ['model.roi_head.shared_head.depth=18', 'model.roi_head.shared_head.init_cfg=None']
    options = ['model.backbone.depth=18', f'model.backbone.init_cfg={start}', *shared]
    command = ['detect', 'check', config, '--checkpoint', evil, '--cfg-options']
    assert main([*command, *options]) == 2
    assert 'refused' in capsys.readouterr().err
    options[1] = 'model.backbone.init_cfg=None'
    assert main([*command, *options]) == 2
    assert 'refused' in capsys.readouterr().err
    assert not trace.exists()


TABLE_COMMANDS = [
    ['map', '{}', *OUT],
    ['select', '{}', '--number', '1', '--out', '{out}.txt'],
    ['search', '{images}/val/a/0.jpg', '--in', '{}'],
    ['eval', '{}', '{}', *OUT],
    ['eval', '{folder}', *OUT],
    ['analyze', '{}', '--data', '{images}', *OUT],
    ['reid', 'eval', '{folder}', *OUT],
]


@pytest.mark.parametrize('command', TABLE_COMMANDS, ids=lambda command: ' '.join(command[:2]))
def test_features_in_commands(command, tmp_path, trace, images, capsys):
    folder = tmp_path / 'features'
    folder.mkdir()
    np.save(folder / 'a.npy', np.array([RunsCode(trace)], object), allow_pickle=True)
    (folder / 'a.paths.txt').write_text('a.jpg\n')
    (folder / 'a.csv').write_text(f'path,f0\n=cmd|calc,{code_in_text(trace)}\n')
    for name in ('a.parquet', 'train.safetensors', 'test.safetensors', 'b.npy'):
        (folder / name).write_bytes(pickle.dumps(RunsCode(trace)))
    odd = [path for _, path in odd_files(tmp_path)]
    values = {'images': images, 'out': tmp_path / 'out', 'folder': folder}
    for path in [*folder.iterdir(), *odd]:
        with suppress(SystemExit):  # of the parser, which looks at paths first
            assert main([part.format(path, **values) for part in command]) == 2, path
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not trace.exists()


SHARD_COMMANDS = [
    ['views', '--data', '{shards}', '--images', '1', '--epochs', '1', '--out', '{out}.png'],
    ['plan', '--data', '{shards}', '--out', '{out}.py'],
    ['duplicates', '{shards}', *OUT],
    ['embed', '{shards}', '--weights', '{good}', '--workers', '0', '--out', '{out}.npy'],
    ['shard', '{shards}', *OUT],
]


@pytest.mark.parametrize('command', SHARD_COMMANDS, ids=lambda command: command[0])
def test_shards_in_commands(command, tmp_path, trace, images):
    """What WebDataset would unpickle, beside images that are fine; a label that is code."""
    shards = tmp_path / 'shards'
    shards.mkdir()
    content = (images / 'train/a/0.jpg').read_bytes()
    files = []
    for number in range(20):
        files += [(f'{number:03}.jpg', content), (f'{number:03}.cls', b'1')]
        files += [(f'{number:03}.{end}', pickle.dumps(RunsCode(trace))) for end in ('pyd', 'pkl')]
    write_tar(shards / 'a.tar', files)
    values = {'shards': shards, 'out': tmp_path / 'out', 'good': WEIGHTS}
    main([part.format(**values) for part in command])
    write_tar(shards / 'a.tar', [('0.jpg', content), ('0.cls', code_in_text(trace).encode())])
    assert main([part.format(**values) for part in command]) == 2
    assert not trace.exists()


def test_weights_in_python_and_init_cfg(tmp_path, trace):
    narrow = {'type': 'mmpretrain.ResNet', 'depth': 18, 'stem_channels': 8, 'base_channels': 8}
    for path in [*hostile_weights(tmp_path, trace), *(p for _, p in odd_files(tmp_path))]:
        for kind in ('Pretrained', 'ttl_mm.PretrainedBackbone'):
            backbone = MODELS.build({**narrow, 'init_cfg': {'type': kind, 'checkpoint': str(path)}})
            with pytest.raises(UserError):
                backbone.init_weights()
        with pytest.raises(UserError):
            load_checkpoint(backbone, str(path))
        with pytest.raises(UserError):
            CheckpointLoader.load_checkpoint(str(path))
        with pytest.raises(UserError):
            ttl_mm.get_model('ttl_r18_digits', pretrained=path)
    assert not trace.exists()


def test_weights_in_the_neighbors_of_a_report(tmp_path, trace, capsys):
    """The config of the work dir is the user's own; the checkpoint that it names is not."""
    base = ROOT / 'configs/digits/ttl_ranks2-10_r18_digits_1xb32_40e.py'
    for number, path in enumerate(hostile_weights(tmp_path, trace)[:2]):
        work_dir = write_start(tmp_path / f'run{number}', '20240101_000000', 1, 40)
        init = f"dict(_delete_=True, type='Pretrained', checkpoint={str(path)!r})"
        text = f'_base_ = {str(base)!r}\nmodel = dict(backbone=dict(init_cfg={init}))\n'
        (work_dir / 'config.py').write_text(text)
        command = ['report', str(work_dir), '--neighbors', '--out', str(tmp_path / 'out')]
        assert main(command) == 2
        assert 'refused' in capsys.readouterr().err
    assert not trace.exists()


def evil_entries(trace):
    network = {'type': 'mmpretrain.ResNet', 'depth': 18}
    yield {'type': 'subprocess.Popen', 'args': ['mkdir', str(trace)]}
    yield {'type': 'os.mkdir', 'path': str(trace)}
    yield {**network, 'init_cfg': {'type': 'os.mkdir', 'path': str(trace)}}
    yield {**network, 'norm_cfg': {'type': 'os.mkdir', 'path': str(trace)}}


def test_manifests(tmp_path, trace, monkeypatch, capsys):
    torch.save(make_resnet(18, stem_channels=8, base_channels=8).state_dict(), tmp_path / 'n.pth')
    manifest, config = tmp_path / 'manifest.json', tmp_path / 'config.py'
    config.write_text(f'import os\nos.mkdir({str(trace)!r})\n')
    monkeypatch.setenv('TTL_ZOO_MANIFEST', str(manifest))
    monkeypatch.setenv('TTL_ZOO_CACHE', str(tmp_path / 'cache'))
    entry = {
        'file': 'n.pth', 'size': None, 'sha256': None, 'kind': 'backbone', 'license': 'x',
        'urls': [(tmp_path / 'n.pth').as_uri()], 'about': '\x1b[2J', 'config': str(config),
        'backbone': {'type': 'mmpretrain.ResNet', 'depth': 18},
    }  # fmt: skip
    for backbone in evil_entries(trace):
        manifest.write_text(json.dumps({'evil': {**entry, 'backbone': backbone}}))
        for pretrained in (False, tmp_path / 'n.pth', True):
            with pytest.raises(UserError, match='correct the manifest'):
                ttl_mm.get_model('evil', pretrained=pretrained)
        for action in (['list'], ['get', 'evil'], ['verify', 'evil'], ['measure', 'evil']):
            assert main(['zoo', *action]) == 2
        for command in (['import', '{}'], ['eval', '{}', '--data', str(tmp_path)]):
            assert main([part.format('ttl_mm://evil') for part in command]) == 2
    manifest.write_text(json.dumps({'evil': entry}))
    assert main(['zoo', 'measure', 'evil']) == 2  # it names a config, which would run
    capsys.readouterr()
    assert main(['zoo', 'list']) == 0
    assert '\x1b' not in capsys.readouterr().out
    for _, path in odd_files(tmp_path):
        assert main(['zoo', '--manifest', str(path), 'list']) == 2
    assert not trace.exists()


def test_pins_and_files_belong_to_an_address(tmp_path, monkeypatch, capsys):
    """A stranger's manifest that uses the name and file of our entry cannot put a file there."""
    for name, depth in (('ours', 18), ('theirs', 34)):
        state = make_resnet(depth, stem_channels=8, base_channels=8).state_dict()
        torch.save(state, tmp_path / f'{name}.pth')
        entry = {
            'file': 'net.pth', 'size': None, 'sha256': None, 'kind': 'backbone', 'license': 'x',
            'urls': [(tmp_path / f'{name}.pth').as_uri()], 'about': '', 'backbone': None,
        }  # fmt: skip
        (tmp_path / f'{name}.json').write_text(json.dumps({'net': entry}))
    monkeypatch.setenv('TTL_ZOO_CACHE', str(tmp_path / 'cache'))
    zoo = {
        name: ['zoo', '--manifest', str(tmp_path / f'{name}.json')] for name in ('ours', 'theirs')
    }
    assert main([*zoo['theirs'], 'get', 'net', '--allow-unhashed']) == 0
    assert main([*zoo['ours'], 'get', 'net']) == 2
    assert main([*zoo['ours'], 'verify', 'net']) == 1
    capsys.readouterr()
    assert main([*zoo['ours'], 'get', 'net', '--allow-unhashed']) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.read_bytes() == (tmp_path / 'ours.pth').read_bytes()


def test_annotations_and_lists_in_commands(tmp_path, trace, capsys):
    files = {
        'a.yaml': f'!!python/object/apply:os.mkdir [{trace}]'.encode(),
        'a.pkl': pickle.dumps(RunsCode(trace)),
        'a.json': json.dumps({'type': 'os.mkdir', 'path': str(trace)}).encode(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        dataset = {'type': 'CustomDataset', 'ann_file': str(tmp_path / name), 'pipeline': []}
        loader = {'dataset': dataset, 'batch_size': 1}
        config = tmp_path / 'config.py'
        config.write_text(f'train_dataloader = {loader}\ntest_dataloader = {loader}\n'
                          "default_scope = 'mmpretrain'\n")  # fmt: skip
        for command in (
            ['views', '--config', str(config), '--out', str(tmp_path / 'out.png')],
            ['eval', WEIGHTS, '--data', str(config), *OUT],
            ['analyze', WEIGHTS, '--data', str(config), *OUT],
            ['compare', WEIGHTS, 'random', '--data', str(config), *OUT],
        ):
            assert main([part.format(out=tmp_path / 'out') for part in command]) == 2, name
    assert not trace.exists()
    capsys.readouterr()


def test_logs_results_and_dumped_configs_in_a_report(tmp_path, trace):
    code = code_in_text(trace)
    work_dir = write_start(tmp_path / 'run', '20240101_000000', 1, 40)
    start = work_dir / '20240101_000000'
    (start / 'vis_data' / 'config.py').write_text(f'import os\nx = {code}\nmax_epochs = {code}\n')
    (start / '20240101_000000.log').write_text(f'GPU number: {code}\n')
    log = start / 'vis_data' / 'scalars.json'
    log.write_text(log.read_text() + json.dumps({'iter': 40, 'loss': code, code: 1}) + '\n')
    (work_dir / 'results.json').write_text(json.dumps({'protocol': code, 'type': 'os.mkdir'}))
    main(['report', str(work_dir), '--out', str(tmp_path / 'out')])
    main(['forecast', str(work_dir)])
    assert not trace.exists()


# Modules that build something by a name and also read data files, and why the one does not reach
# the other. A new module belongs here only if no value of a file becomes a part of what it builds.
BOTH = {
    'ttl_mm/evaluation/model.py': 'builds a ResNet by its shapes, or one of a library by its name, '
    'and three numbers in a range for the colors',
    'ttl_mm/evaluation/sources.py': 'builds the config of the user, reads tensors for it',
    'ttl_mm/models/zoo_models.py': 'builds one of the architectures that the manifest may describe',
    'ttl_mm/export/formats.py': 'builds a ResNet by its shapes',
    'ttl_mm/planning/tried.py': 'builds the config that it wrote, reads tensors for it',
    'ttl_mm/pretraining/plan.py': 'builds what the command line names, to compare its tensors',
    'ttl_mm/report/neighbors.py': 'builds the config of the user, reads tensors for it',
    'ttl_mm/finetuning/network_file.py': 'builds a ResNet whose settings are on a fixed list, in '
    'one of our networks',
    'ttl_mm/tasks/detection/command.py': 'builds the config of the user, reads tensors for it',
}
READERS = {
    'declared_architecture', 'find_entry', 'input_settings', 'load_backbone_state', 'load_run',
    'loads', 'parse_json', 'read_architecture', 'read_checkpoint', 'read_config_text',
    'read_dumped', 'read_features', 'read_header', 'read_input_settings', 'read_json',
    'read_literals', 'read_manifest', 'read_results', 'read_sealed', 'read_table', 'safe_load',
}  # fmt: skip


def builds_and_reads(source):
    """Whether a module builds by name through a registry, and which readers of files it calls."""
    calls = [n.func for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)]
    names = {getattr(f, 'attr', getattr(f, 'id', '')) for f in calls}
    built = [f.value for f in calls if isinstance(f, ast.Attribute) and f.attr == 'build']
    owners = {owner.id for owner in built if isinstance(owner, ast.Name)}
    registry = any(owner.isupper() for owner in owners) or names & {
        'build_from_cfg',
        'build_loaded',
    }
    return bool(registry), names & READERS


def test_no_dict_of_a_file_reaches_a_registry():
    modules = sorted((ROOT / 'ttl_mm').rglob('*.py'))
    found = {str(path.relative_to(ROOT)): builds_and_reads(path.read_text()) for path in modules}
    assert sum(builds for builds, _ in found.values()) > 8
    both = {name for name, (builds, reads) in found.items() if builds and reads}
    assert both == BOTH.keys(), 'say in BOTH why no value of a file is built'
    bad = 'def f(path):\n    return MODELS.build(parse_json(path))\n'
    assert builds_and_reads(bad) == (True, {'parse_json'})
    assert builds_and_reads('def f(m):\n    m.build()\n') == (False, set())


def test_no_module_of_the_current_folder_is_imported(tmp_path, trace):
    (tmp_path / 'argparse.py').write_text(f'import os\nos.mkdir({str(trace)!r})\n')
    script = ROOT / 'projects' / 'detection' / 'run.sh'
    plain = {k: v for k, v in os.environ.items() if k != 'PYTHONPATH'}
    environment = {**plain, 'PYTHON': sys.executable}
    command = ['bash', str(script), 'none.py', 'none', '1']
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert 'none.py' in done.stderr
    assert not trace.exists()
