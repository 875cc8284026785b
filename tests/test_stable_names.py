"""Names that programs, scripts and papers of users have: they stay where they are."""

import importlib
import os
import subprocess

import pytest

from tests.helpers.paths import ROOT

PYTHON = {
    'ttl_mm.models': 'truncated_triplet_loss deputy_ranks TruncatedTripletHead TTLAlgorithm',
    'ttl_mm.evaluation': 'knn_classify',
    'ttl_mm.gauges': 'overclustering_risk smallest_safe_k',
    'ttl_mm.analysis': 'overclustering_risk smallest_safe_k',
}
DETECTION = [
    f'{name}{weights}.py'
    for name in ('faster-rcnn_r50-c4_24k_voc0712', 'mask-rcnn_r50-c4_2x_coco')
    for recipe in ('', '_moco')
    for weights in (recipe, f'{recipe}_random', f'{recipe}_supervised')
]


@pytest.mark.parametrize('module', PYTHON)
def test_python(module):
    for name in PYTHON[module].split():
        assert getattr(importlib.import_module(module), name).__name__ == name


def test_recipes_of_detection():
    folder = ROOT / 'projects' / 'detection' / 'configs'
    assert [name for name in DETECTION if not (folder / name).is_file()] == []


def test_the_line_that_trains_the_main_recipe(tmp_path):
    """Up to the command that the script starts, with a stand-in for Python."""
    python = tmp_path / 'python'
    python.write_text('#!/bin/sh\n[ "$2" = -c ] || echo "$@"\n')
    python.chmod(0o755)
    line = 'tools/dist_train.sh configs/ttl_r50_8xb104_200e.py 8'
    env = {**os.environ, 'PYTHON': str(python)}
    ended = subprocess.run(line.split(), cwd=ROOT, env=env, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, '')
    trainer = ROOT / 'tools/train.py'
    words = f'--nproc_per_node 8 {trainer} configs/ttl_r50_8xb104_200e.py --launcher pytorch'
    assert ended.stdout.strip().endswith(words)
    assert trainer.is_file()
    assert (ROOT / 'configs/ttl_r50_8xb104_200e.py').is_file()
