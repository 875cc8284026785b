import subprocess
import sys

import pytest


@pytest.mark.parametrize('default_scope', ['mmengine', 'mmpretrain', 'mmdet'])
def test_scope_resolves_without_custom_imports(default_scope):
    """A fresh process that only knows mmengine finds our names, whatever the default scope."""
    code = (
        'from mmengine.registry import DefaultScope, MODELS\n'
        f'DefaultScope.get_instance("x", scope_name="{default_scope}")\n'
        'print(MODELS.get("ttl_mm.TTLAlgorithm").__module__)'
    )
    result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
    assert result.stdout.strip().startswith('ttl_mm.models'), result.stderr
