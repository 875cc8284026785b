"""Metadata is in setup.cfg. A wheel also carries the recipes, where ``mim`` looks for them."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
RECIPES = ('model-index.yml', 'configs/**/*', 'projects/*/metafile.yml', 'projects/*/configs/**/*')


class BuildWithRecipes(build_py):
    """Copies what :data:`RECIPES` names beside the modules; an editable install needs no copy."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for path in (path for pattern in RECIPES for path in sorted(ROOT.glob(pattern))):
            if path.suffix in ('.py', '.yml', '.md'):
                target = Path(self.build_lib, 'ttl_mm', '.mim', path.relative_to(ROOT))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


setup(cmdclass={'build_py': BuildWithRecipes})
