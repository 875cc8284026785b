"""Each task is a slice: without its folder, the rest of the package imports and works."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.helpers.paths import ROOT
from tests.helpers.toy_run import make_images, write_config
from tools.import_graph import import_graph

SLICES = {'detection': 'detect', 'reid': 'reid', 'mmselfsup': None}  # and their commands
# Imports every module of the package that lies in the working directory, and uses some of them.
STORY = """
import pkgutil, sys
from importlib import import_module
from pathlib import Path

import ttl_mm

assert Path(ttl_mm.__file__).parent == Path.cwd() / 'ttl_mm', ttl_mm.__file__
import ttl_mm.registry
names = [module.name for module in pkgutil.walk_packages(ttl_mm.__path__, 'ttl_mm.')]
for name in sorted(names, key=lambda name: not name.endswith('.parts')):  # the entry of a task
    if not name.endswith('__main__'):
        import_module(name)

from ttl_mm.cli import build_parser, main
from ttl_mm.engine.runner.launch import train

views = ['views', '--data', 'images', '--images', '1', '--epochs', '1', '--out', 'views.png']
assert main(views) == 0
train('config.py', 'work', cfg_options={'train_cfg.max_epochs': 1})
print(len(names), 'modules')
print(build_parser().format_help())
"""


def test_no_other_room_imports_a_task():
    graph = import_graph(ROOT)
    for task in SLICES:
        room = f'tasks.{task}'
        assert room in graph
        assert [other for other, imported in graph.items() if room in imported] == []


@pytest.mark.parametrize('task', SLICES)
def test_the_rest_works_without(task, tmp_path):
    removed = str(ROOT / 'ttl_mm/tasks' / task)
    ignore = shutil.ignore_patterns('__pycache__')
    shutil.copytree(
        ROOT / 'ttl_mm',
        tmp_path / 'ttl_mm',
        ignore=lambda folder, names: names if folder == removed else ignore(folder, names),
    )
    (tmp_path / 'ttl_mm/tasks' / task).rmdir()
    write_config(tmp_path / 'config.py', make_images(tmp_path / 'images'))
    run = subprocess.run(
        [sys.executable, '-c', STORY],
        cwd=tmp_path,
        env={
            **os.environ,
            'PYTHONPATH': os.pathsep.join([str(tmp_path), str(ROOT)]),
            'XDG_CACHE_HOME': str(tmp_path / 'cache'),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert (tmp_path / 'work/epoch_1.pth').is_file()
    assert (tmp_path / 'views.png').is_file()
    listed = {line.split()[0] for line in run.stdout.splitlines() if line.startswith('    ')}
    assert {'eval', 'views', *filter(None, SLICES.values())} - listed == {SLICES[task]} - {None}
