"""Metadata is in setup.cfg. A wheel also carries the recipes, where ``mim`` looks for them."""

import shutil
from contextlib import suppress
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
RECIPES = ('model-index.yml', 'configs/**/*', 'projects/*/metafile.yml', 'projects/*/configs/**/*')


class BuildWithRecipes(build_py):
    """Copies what :data:`RECIPES` names beside the modules; an editable install gets links."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            link_recipes(ROOT / 'ttl_mm' / '.mim')
            return
        for path in (path for pattern in RECIPES for path in sorted(ROOT.glob(pattern))):
            if path.suffix in ('.py', '.yml', '.md'):
                target = Path(self.build_lib, 'ttl_mm', '.mim', path.relative_to(ROOT))
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)


def link_recipes(folder: Path) -> None:
    """Links to the recipes of the checkout, where the system has links."""
    folder.mkdir(exist_ok=True)
    for name in ('model-index.yml', 'configs', 'projects'):
        with suppress(OSError):  # it is there, or links are not allowed
            (folder / name).symlink_to(Path('..', '..', name))


setup(cmdclass={'build_py': BuildWithRecipes})
