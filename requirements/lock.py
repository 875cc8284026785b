"""Write what every stack needs, with hashes, into requirements/locked: ``make lock``.

Needs uv (``pipx install uv``) and the registry. uv resolves for every platform and Python of the
range at once, and lists the hashes of all files of a release. Versions that are locked are kept
where the requirements still allow them; delete a line, or a file, for the newest.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent
LOCKED = REQUIREMENTS / 'locked'
OLDEST = '3.11'
# The parts that install.py installs by themselves: people bring a torch of their own, which has
# other libraries of CUDA or none, and the wheel of mmcv is built here.
PARTS = {
    'torch': re.compile(r'torch|triton|cuda-.*|nvidia-.*'),
    'torchvision': re.compile(r'torchvision'),
    'mmcv': re.compile(r'onedl-mmcv'),
}
# It overwrites files of opencv-python-headless, which does all we need.
NEVER = "opencv-python ; sys_platform == 'never'\n"
HEAD = '# Written by `make lock` from ../{}; not by hand.\n'


def main() -> int:
    """Resolve all stacks and write one file each."""
    if shutil.which('uv') is None:
        print('lock: uv was not found: `pipx install uv`, then run it again', file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        before = ''.join(path.read_text() for path in sorted(LOCKED.glob('*.txt')))
        full = resolve('full.txt', Path(folder) / 'full', before)
        light = resolve('light.txt', Path(folder) / 'light', full, '--constraint', f'{folder}/full')
        nodeps = resolve('nodeps.txt', Path(folder) / 'nodeps', before, '--no-deps')
        build = resolve('build.txt', Path(folder) / 'build', before)
    light, full, nodeps, build = map(blocks, (light, full, nodeps, build))
    LOCKED.mkdir(exist_ok=True)
    for part, names in PARTS.items():
        write(part, 'light.txt', {k: v for k, v in light.items() if names.fullmatch(name_of(k))})
    rest = {k: v for k, v in light.items() if part_of(k) is None}
    write('light', 'light.txt', rest)
    more = {k: v for k, v in full.items() if k not in rest and part_of(k) is None}
    write('full', 'full.txt and ../nodeps.txt, beyond light.txt', {**more, **nodeps})
    write('build', 'build.txt', build)
    return 0


def resolve(requirements: str, target: Path, prefer: str, *options: str) -> str:
    """The text of uv's lock for one file of requirements; ``prefer`` is an older one."""
    target.write_text(prefer)
    never = target.with_name('never')
    never.write_text(NEVER)
    command = ['uv', 'pip', 'compile', '--quiet', '--universal', '--python-version', OLDEST]
    command += ['--generate-hashes', '--no-header', '--no-annotate', '--output-file', str(target)]
    command += ['--override', str(never), '--no-emit-package', NEVER.split()[0]]
    command += [*options, str(REQUIREMENTS / requirements)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return target.read_text()


def blocks(text: str) -> dict[str, str]:
    r"""``'a==1 ; python_version < "3.12" \\'`` -> the whole requirement with its hashes."""
    found = re.split(r'^(?=[a-z0-9])', text, flags=re.MULTILINE)
    return {block.partition(' \\\n')[0]: block for block in found if '==' in block}


def name_of(requirement: str) -> str:
    return requirement.partition('==')[0]


def part_of(requirement: str) -> str | None:
    """Which of :data:`PARTS` a requirement belongs to, if any."""
    name = name_of(requirement)
    return next((part for part, names in PARTS.items() if names.fullmatch(name)), None)


def write(part: str, source: str, requirements: dict[str, str]) -> None:
    text = HEAD.format(source) + ''.join(v for _, v in sorted(requirements.items()))
    (LOCKED / f'{part}.txt').write_text(text)


if __name__ == '__main__':
    sys.exit(main())
