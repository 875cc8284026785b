import subprocess
import sys

from tests.helpers.paths import ROOT

# Imports the other packages once; then, for each scope, a child finds a name of ours.
STORY = """
import os, sys
from runpy import run_path

guard = run_path(sys.argv[1])  # kept: it holds what it has declared
guard['guard_torchvision']()
os.environ['TTL_TORCHVISION_GUARD'] = '0'  # done
import mmdet.models, mmpretrain.models
from mmengine.registry import DefaultScope, METRICS, MODELS

assert not any(name.startswith('ttl_mm') for name in sys.modules)
for scope in sys.argv[2:]:
    if not os.fork():
        DefaultScope.get_instance('x', scope_name=scope)
        print(scope, MODELS.get('ttl_mm.TTLAlgorithm').__module__, flush=True)
        assert METRICS.get('ttl_mm.Absent') is None
        os._exit(0)
    assert os.wait()[1] == 0, scope
"""


def test_scope_resolves_without_custom_imports():
    """A process that knows nothing of ours finds our names, whatever the default scope."""
    guard, scopes = ROOT / 'ttl_mm/compat/torchvision_guard.py', ('mmengine', 'mmpretrain', 'mmdet')
    command = [sys.executable, '-c', STORY, guard, *scopes]
    run = subprocess.run(command, capture_output=True, text=True)
    found = dict(line.split() for line in run.stdout.splitlines() if line.startswith(scopes))
    assert found == dict.fromkeys(scopes, 'ttl_mm.models.algorithm'), run.stderr
    assert 'is not installed' not in run.stdout + run.stderr  # mmengine says so of an empty one
