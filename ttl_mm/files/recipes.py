"""Where the recipes of this package lie."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]


def recipes_root(package: Path = PACKAGE) -> Path:
    """The folder with ``configs`` and ``projects``: of a checkout, or of the installed package.

    ``setup.py`` puts them into ``.mim`` of the package, as OpenMMLab's packages do.
    """
    checkout = package.parent
    return checkout if (checkout / 'model-index.yml').is_file() else package / '.mim'
