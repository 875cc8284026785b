"""Where the repository lies, and its recipes."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
RECIPES = sorted(
    path
    for folder in (ROOT / 'configs', *ROOT.glob('projects/*/configs'))
    for path in folder.rglob('*.py')
    if '_base_' not in path.parts
)
