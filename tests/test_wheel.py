"""The wheel is complete: every command of ``ttl`` works from it, in an empty folder."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
import yaml

from tests.helpers.detection_data import write_voc
from tests.helpers.images import make_folder
from tests.helpers.mask_data import write_voc_masks
from tests.helpers.paths import ROOT

# Each line is a command; what the first ones write, the later ones read. MIM is where the recipes
# of the installed package lie.
COMMANDS = """
doctor
backbones resnet18
zoo list
zoo get ttl_r18_digits
zoo measure ttl_r18_digits
plan --images 10000 --classes 10 --out plan.py
views --data photos --out views.png
train photos/train --size 32 --epochs 1 --out run
demo --epochs 1 --out demo
report run --out report
forecast demo
shard photos --out shards
export run/backbone.pth --to torchvision --out resnet18.pth
import resnet18.pth --out imported.pth
eval run/backbone.pth --data photos --knn --size 32 --out eval
analyze run/backbone.pth --data photos --size 32 --batch-size 8 --out analysis
embed photos --weights run/backbone.pth --size 32 --out features.safetensors
map features.safetensors --method pca --data photos --out map
duplicates photos --out duplicates
search photos/train/a/0.png --in features.safetensors --data photos --weights run/backbone.pth \
--size 32
select features.safetensors --number 4 --out chosen.txt
compare run/backbone.pth random --data photos --protocols knn --seeds 1 --size 32 --out compared
finetune photos --weights run/backbone.pth --epochs 1 --no-baseline --size 32 --out tuned
predict photos/val --weights tuned/classifier.pth --out labels.csv
segment train masks --weights run/backbone.pth --epochs 1 --no-baseline --size 32 --out segmented
segment run masks/JPEGImages --weights segmented/segmenter.pth --out colored
reid make people
reid check people
reid eval run/backbone.pth --data people --out reid
detect check MIM/projects/detection/configs/faster-rcnn_r50-c4_24k_voc0712.py
"""
# One process, so that the packages are imported once.
SCRIPT = f"""
import sys, time
from pathlib import Path
import ttl_mm
from ttl_mm import cli
package = Path(ttl_mm.__file__).parent
assert package.is_relative_to(sys.prefix), package
lines = {COMMANDS.strip().splitlines()!r}
failed = []
for line in lines:
    begun = time.process_time()
    print('$ ttl', line, flush=True)
    if code := cli.main(line.replace('MIM', str(package / '.mim')).split()):
        failed.append((code, line))
    print(f'took {{time.process_time() - begun:.1f}} s of processor time', flush=True)
missing = {{name for name, _ in cli.commands()}} - {{line.split()[0] for line in lines}}
from mmengine.hub import get_config
batch = get_config('ttl_mm::ttl_r50_8xb104_200e.py').train_dataloader.batch_size
Path('own.py').write_text('_base_ = "ttl_mm::own_images/ttl_soft_r18_1xb104_100e.py"')
from ttl_mm.config import read_config
assert read_config('own.py').train_dataloader.batch_size == 104
print('RESULT', failed, missing, batch)
"""


@pytest.fixture(scope='module')
def installed(tmp_path_factory) -> Path:
    """A fresh environment with the wheel in it; it borrows the other packages of this one."""
    folder = tmp_path_factory.mktemp('wheel')
    source = folder / 'source'  # setuptools leaves its own folders behind
    for name in tracked('.'):
        if not name.startswith(('tests/', 'docs/')):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    pip = [sys.executable, '-m', 'pip', '-q']
    build = ['wheel', '--no-deps', '--no-build-isolation', '-w', folder / 'dist', source]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = (folder / 'dist').glob('*.whl')
    home = folder / 'env'
    venv.create(home)
    # only the path: the .pth files in it, such as that of a checkout, are not read
    (packages_of(home) / 'borrowed.pth').write_text(sysconfig.get_path('purelib'))
    python = home / 'bin' / 'python'
    target = [*pip, '--python', python, 'install', '--no-deps', '--no-index', '--force-reinstall']
    subprocess.run([*target, wheel], check=True)
    return home


def tracked(folder: str) -> list[str]:
    """The files of a folder of the repository, with those that will be committed."""
    command = ['git', 'ls-files', '-z', '--cached', '--others', '--exclude-standard', folder]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in found.split('\0') if name and (ROOT / name).is_file()]


def packages_of(home: Path) -> Path:
    return Path(sysconfig.get_path('purelib', 'venv', {'base': str(home)}))


def run(home: Path, folder: Path, *command: str, **environment: str) -> str:
    outer = {k: v for k, v in os.environ.items() if not k.startswith(('PYTHON', 'COV'))}
    environment['XDG_CACHE_HOME'] = str(folder / 'cache')
    result = subprocess.run(
        [str(home / 'bin' / command[0]), *command[1:]],
        cwd=folder, env={**outer, **environment}, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout + result.stderr


def test_the_command_is_installed(installed, tmp_path):
    assert 'ttl_mm ' in run(installed, tmp_path, 'ttl', '--version')
    assert 'demo' in run(installed, tmp_path, 'ttl', '--help')


def test_every_file_of_the_package_and_every_recipe_is_installed(installed):
    packages = packages_of(installed)
    for name in tracked('ttl_mm'):
        assert (packages / name).read_bytes() == (ROOT / name).read_bytes(), name
    for name in tracked('configs'):
        assert (packages / 'ttl_mm' / '.mim' / name).is_file(), name


def test_mim_finds_every_recipe(installed):
    """As it looks for them: from model-index.yml over the metafiles to the configs."""
    root = packages_of(installed) / 'ttl_mm' / '.mim'
    index = yaml.safe_load((root / 'model-index.yml').read_text())
    models = [
        model
        for path in index['Import']
        for model in yaml.safe_load((root / path).read_text())['Models']
    ]
    assert 'configs/ttl_r50_8xb104_200e.py' in {model['Config'] for model in models}
    for model in models:
        assert (root / model['Config']).is_file(), model['Config']


@pytest.mark.faults
def test_every_command_works_in_an_empty_folder(installed, tmp_path):
    from mmdet.datasets import VOCDataset

    for seed, split in enumerate(('train', 'val')):
        make_folder(tmp_path / 'photos' / split, 'ab', 12, seed=seed)
    write_voc_masks(tmp_path / 'masks', {'train': 4, 'val': 2})
    years = ('VOC2007', 'VOC2012')
    voc = write_voc(tmp_path, 1, 1, VOCDataset.METAINFO['classes'], years)
    printed = run(installed, tmp_path, 'python', '-c', SCRIPT, VOC_ROOT=str(voc))
    assert 'RESULT [] set() 104' in printed, printed[-5000:]
    for noise in ('Could not import OneDL', 'Fail to import', 'Traceback'):
        assert noise not in printed
