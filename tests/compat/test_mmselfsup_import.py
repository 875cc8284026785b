"""mmselfsup beside mmpretrain and mmdet, and nothing else changed by it."""

import json
import subprocess
import sys

import pytest

from ttl_mm.engine.runner.launch import exit_code, train
from ttl_mm.engine.state.exit_codes import USER_ERROR

# Prints one snapshot a line: of all registries, scope by scope, and of the versions.
STORY = """
import json, sys
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

for package in ('ttl_mm', 'mmpretrain', 'mmdet'):  # ttl_mm guards torchvision first
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
import ttl_mm.tasks.mmselfsup.parts
import mmdet.models
from mmengine.registry import MODELS
names = 'mmdet.MaskRCNN', 'mmdet.ResLayerExtraNorm', 'mmselfsup.RotationPred', 'mmpretrain.BYOL'
print(*[MODELS.get(name).__module__.split('.')[0] for name in names])
"""
OURS = {
    'ClusterHook', 'ClusterLoss', 'ODCHook', 'ODCMemory', 'PackSelfSupViews', 'PatchesWithLabels',
}  # fmt: skip


def printed(code: str) -> list[str]:
    result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def changes(before: dict, after: dict) -> dict[str, set[str]]:
    """The names that are not what they were, per registry that was there before."""
    found = {}
    for registry, old in before.items():
        new = after[registry]
        found[registry] = {name for name in old.keys() | new if old.get(name) != new.get(name)}
    return {registry: names for registry, names in found.items() if names}


@pytest.fixture(scope='module')
def story():
    lines = [line for line in printed(STORY) if line.startswith('[')]
    titles = ('without it', 'failed', 'bridged', 'again')
    return {title: json.loads(line) for title, line in zip(titles, lines, strict=True)}


def test_nothing_of_ours_imports_it_unasked(story):
    assert story['without it'][2] is False
    assert story['bridged'][2] is True


def test_versions_and_registries_are_what_they_were(story):
    (before, versions, _), (after, versions_after, _) = story['without it'], story['bridged']
    assert versions_after == versions
    changed = changes(before, after)
    assert set(changed) == {'hook ttl_mm', 'model ttl_mm', 'transform ttl_mm'}
    assert set.union(*changed.values()) == OURS


def test_a_failed_import_leaves_nothing_behind_and_can_be_repeated(story):
    (before, versions, _), (after, versions_after, _) = story['without it'], story['failed']
    assert versions_after == versions
    assert changes(before, after) == {}
    assert 'TTLAlgorithm' in story['bridged'][0]['model mmselfsup']


def test_a_second_time_changes_nothing(story):
    assert story['again'] == story['bridged']


def test_it_can_come_before_mmdet():
    assert printed(BEFORE_MMDET)[-1] == 'mmdet mmpretrain mmselfsup mmpretrain'


def test_absent_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    config = tmp_path / 'config.py'
    config.write_text("custom_imports = dict(imports=['ttl_mm.tasks.mmselfsup.parts'])\n")
    import ttl_mm.compat.mmselfsup_import as imports

    monkeypatch.delitem(sys.modules, 'ttl_mm.tasks.mmselfsup.parts', raising=False)
    monkeypatch.setattr(imports, 'find_spec', lambda name: None if name == 'mmselfsup' else 1)
    assert exit_code(lambda: train(str(config), work_dir=str(tmp_path))) == USER_ERROR
    message = capsys.readouterr().err
    assert message.startswith('error: mmselfsup missing')
    assert 'pip install --no-deps mmselfsup==1.0.0 mmcls==1.0.0rc6' in message
