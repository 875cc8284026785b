"""Each task is a slice: without its folder, the rest of the package imports and works."""

import os
import shutil
import subprocess
import sys

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import make_images, write_config
from tools.import_graph import import_graph

SLICES: dict[str, set[str]] = {  # and their commands
    'classification': {'finetune', 'predict'},
    'detection': {'detect'},
    'reid': {'reid'},
    'mmselfsup': set(),
    'segmentation': {'segment'},
}
# In each of the folders that are its arguments: imports every module of the package there, and uses
# some of them. The children share the imports of other packages, which take most of the time.
STORY = """
import os, pkgutil, sys
from importlib import import_module
from pathlib import Path
from runpy import run_path

guard = run_path(sys.argv[1] + '/ttl_mm/compat/torchvision_guard.py')
guard['guard_torchvision']()
os.environ['TTL_TORCHVISION_GUARD'] = '0'  # done
import mmdet.models, mmpretrain.models

def use_package():
    import ttl_mm

    assert Path(ttl_mm.__file__).parent == Path.cwd() / 'ttl_mm', ttl_mm.__file__
    import ttl_mm.registry
    names = [module.name for module in pkgutil.walk_packages(ttl_mm.__path__, 'ttl_mm.')]
    for name in sorted(names, key=lambda name: not name.endswith('.parts')):  # entries of tasks
        if not name.endswith('__main__'):
            import_module(name)

    from ttl_mm.cli import build_parser, main
    from ttl_mm.engine.runner.launch import train

    views = ['views', '--data', 'images', '--images', '1', '--epochs', '1', '--out', 'views.png']
    assert main(views) == 0
    train('config.py', 'work', cfg_options={'train_cfg.max_epochs': 1})
    Path('help.txt').write_text(build_parser().format_help())

assert not any(name.startswith('ttl_mm') for name in sys.modules)
for folder in sys.argv[1:]:
    if not os.fork():
        os.chdir(folder)
        sys.path.insert(0, folder)
        use_package()
        os._exit(0)
    assert os.wait()[1] == 0, folder
"""


def test_no_other_room_imports_a_task():
    graph = import_graph(ROOT)
    for task in SLICES:
        room = f'tasks.{task}'
        assert room in graph
        assert [other for other, imported in graph.items() if room in imported] == []


def test_the_rest_works_without_a_task(tmp_path):
    for task in SLICES:
        half_written = shutil.ignore_patterns('*.pyc.*')  # by another process that compiles
        package = shutil.copytree(ROOT / 'ttl_mm', tmp_path / task / 'ttl_mm', ignore=half_written)
        shutil.rmtree(package / 'tasks' / task)
        write_config(tmp_path / task / 'config.py', make_images(tmp_path / task / 'images'))
    run = subprocess.run(
        [sys.executable, '-c', STORY, *(str(tmp_path / task) for task in SLICES)], cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(ROOT)}, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    for task, commands in SLICES.items():
        assert (tmp_path / task / 'work/epoch_1.pth').is_file()
        assert (tmp_path / task / 'views.png').is_file()
        lines = (tmp_path / task / 'help.txt').read_text().splitlines()
        listed = {line.split()[0] for line in lines if line.startswith('    ')}
        assert {'eval', 'views'}.union(*SLICES.values()) - listed == commands
