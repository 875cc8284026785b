import subprocess
import sys


def test_scope_resolves_without_custom_imports():
    """A fresh process that only knows mmengine finds our names, whatever the default scope."""
    for default_scope in ('mmengine', 'mmpretrain', 'mmdet'):
        code = (
            'from mmengine.registry import DefaultScope, MODELS\n'
            f'DefaultScope.get_instance("x", scope_name="{default_scope}")\n'
            'print(MODELS.get("ttl_mm.TTLAlgorithm").__module__)'
        )
        result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)
        assert result.stdout.strip().startswith('ttl_mm.models'), result.stderr
