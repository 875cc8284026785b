"""mmselfsup beside mmpretrain and mmdet, and nothing else changed by it."""

import json
import subprocess
import sys

import pytest

import ttl_mm.compat.mmselfsup_import as imports
from ttl_mm.engine.runner.launch import exit_code, train
from ttl_mm.engine.state.exit_codes import USER_ERROR

# What both stories need and neither is about; the second is told by a child, which shares it.
COMMON = """
import os, sys
import ttl_mm.registry  # guards torchvision
import sklearn.gaussian_process, torchvision

assert not {'mmpretrain', 'mmdet', 'mmselfsup'} & sys.modules.keys()
"""
# Prints one snapshot a line: of all registries, scope by scope, and of the versions.
STORY = """
import json
from importlib import import_module, reload
from mmengine.registry import Registry, root

def tell():
    registries = {}
    for registry in [r for r in vars(root).values() if isinstance(r, Registry)]:
        for scope, one in {'': registry, **registry.children}.items():
            entries = {name: f'{entry} {id(entry)}' for name, entry in one.module_dict.items()}
            registries[f'{registry.name} {scope}'] = entries
    packages = ('mmcv', 'mmengine', 'mmpretrain', 'mmdet', 'torch', 'numpy')
    versions = {name: sys.modules[name].__version__ for name in packages}
    print(json.dumps([registries, versions, 'mmselfsup' in sys.modules]))

for package in ('ttl_mm', 'mmpretrain', 'mmdet'):
    for part in ('models', 'engine', 'datasets', 'evaluation'):
        import_module(f'{package}.{part}')
tell()
sys.modules['mmselfsup.engine'] = None  # which is how to make an import fail
try:
    import ttl_mm.tasks.mmselfsup.parts
except ImportError:
    tell()
del sys.modules['mmselfsup.engine']
import ttl_mm.tasks.mmselfsup.parts
tell()
reload(ttl_mm.tasks.mmselfsup.parts)
tell()
"""
BEFORE_MMDET = """
if not os.fork():
    import ttl_mm.tasks.mmselfsup.parts
    import mmdet.models
    from mmengine.registry import MODELS
    names = 'mmdet.MaskRCNN', 'mmdet.ResLayerExtraNorm', 'mmselfsup.RotationPred', 'mmpretrain.BYOL'
    print('found', *[MODELS.get(name).__module__.split('.')[0] for name in names], flush=True)
    os._exit(0)
assert os.wait()[1] == 0
"""
OURS = 'ClusterHook ClusterLoss ODCHook ODCMemory PackSelfSupViews PatchesWithLabels'


@pytest.fixture(scope='module')
def printed() -> list[str]:
    """The lines of a new process."""
    code = COMMON + BEFORE_MMDET + STORY
    return subprocess.check_output([sys.executable, '-c', code], text=True).splitlines()


def changes(before: dict, after: dict) -> dict[str, set[str]]:
    """The names that are not what they were, per registry that was there before."""
    found = {key: {name for name, _ in before[key].items() ^ after[key].items()} for key in before}
    return {registry: names for registry, names in found.items() if names}


def test_versions_and_registries_are_what_they_were(printed):
    """After an import that fails, after one that works, and after a second one."""
    lines = [json.loads(line) for line in printed if line.startswith('[')]
    (before, versions, imported), failed, bridged, again = lines
    assert (imported, bridged[2]) == (False, True)  # nothing of ours imports it unasked
    assert failed[1] == bridged[1] == versions
    assert changes(before, failed[0]) == {}
    changed = changes(before, bridged[0])
    assert set(changed) == {'hook ttl_mm', 'model ttl_mm', 'transform ttl_mm'}
    assert set.union(*changed.values()) == set(OURS.split())
    assert 'TTLAlgorithm' in bridged[0]['model mmselfsup']
    assert again == bridged


def test_it_can_come_before_mmdet(printed):
    assert 'found mmdet mmpretrain mmselfsup mmpretrain' in printed


def test_absent_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    config = tmp_path / 'config.py'
    config.write_text("custom_imports = dict(imports=['ttl_mm.tasks.mmselfsup.parts'])\n")
    monkeypatch.delitem(sys.modules, 'ttl_mm.tasks.mmselfsup.parts', raising=False)
    monkeypatch.setattr(imports, 'find_spec', lambda name: None if name == 'mmselfsup' else 1)
    assert exit_code(lambda: train(str(config), work_dir=str(tmp_path))) == USER_ERROR
    message = capsys.readouterr().err
    assert message.startswith('error: mmselfsup missing')
    assert 'pip install --no-deps mmselfsup==1.0.0 mmcls==1.0.0rc6' in message
