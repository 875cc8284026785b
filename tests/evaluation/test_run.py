"""``ttl eval`` as a user runs it."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
import torchvision
from mmengine.utils import get_installed_path
from PIL import Image
from safetensors.torch import save_file
from sklearn.neighbors import KNeighborsClassifier

from tests.helpers.checkpoints import random_network
from tests.helpers.images import make_folder
from ttl_mm.cli import main
from ttl_mm.evaluation.data import open_splits
from ttl_mm.evaluation.feature_file import read_features
from ttl_mm.evaluation.model import IMAGENET

FAST = ['--workers', '0', '--neighbors', '1', '3', '1000']


@pytest.fixture(scope='module')
def evaluated(checkpoint, folder, tmp_path_factory):
    out = tmp_path_factory.mktemp('out')
    options = ['--knn', '--linear', '--lowshot', '--tsne', '--confusion', '--out', str(out)]
    assert main(['eval', str(checkpoint), '--data', str(folder), *options, *FAST]) == 0
    return out


def test_figures_name_their_origin_and_equal_scikit_learn(evaluated, checkpoint):
    figures = json.loads((evaluated / 'figures.json').read_text())
    protocols = [(f['protocol'].split()[0], f.get('k') or f.get('shots')) for f in figures]
    shots = [('low-shot', n) for n in (1, 2, 4)]
    assert protocols == [('weighted', 1), ('weighted', 3), ('logistic', None), *shots]
    for figure in figures:
        assert figure['metric'] == 'top-1 (%)'
        assert 0 <= figure['value'] <= 100
        assert figure['checkpoint_sha256'] == hashlib.sha256(checkpoint.read_bytes()).hexdigest()
        assert figure['train']['images'] == 18
        assert figure['test']['images'] == 9
        assert figure['train']['fingerprint'] != figure['test']['fingerprint']
        assert figure['crop'] == 'short side 32, center 32, bilinear'
        assert {'torch', 'mmpretrain', 'ttl_mm'} <= figure['measured_with'].keys()
    train, test = (read_features(evaluated / f'{name}.safetensors') for name in ('train', 'test'))
    knn = KNeighborsClassifier(3, metric='cosine', weights=lambda d: np.exp((1 - d) / 0.07))
    knn.fit(train.features.astype(np.float64), train.labels)
    expected = 100 * knn.score(test.features.astype(np.float64), test.labels)
    assert figures[1]['value'] == pytest.approx(expected, abs=1e-3)


def test_pictures_are_drawn_and_feature_files_need_no_checkpoint(evaluated, tmp_path, capsys):
    expected = json.loads((evaluated / 'figures.json').read_text())[:2]
    files = [str(evaluated / f'{name}.safetensors') for name in ('train', 'test')]
    for source in ([str(evaluated)], files):
        assert main(['eval', *source, '--knn', '--out', str(tmp_path), *FAST]) == 0
        assert json.loads((tmp_path / 'figures.json').read_text()) == expected
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith('weighted kNN, cosine, k 1, temperature 0.07')
    assert lines[1].endswith(f'{expected[0]["value"]:.2f}')
    for name in ('tsne.png', 'confusion.png'):
        picture = np.asarray(Image.open(evaluated / name).convert('L'))
        assert picture.shape == (840, 1080)
        assert picture.std() > 5


def test_default_folders_do_not_collide_and_protocols_add_up(
    checkpoint, folder, tmp_path, monkeypatch
):
    """Two runs have files of the same name; kNN and linear are measured one after the other."""
    monkeypatch.chdir(tmp_path)
    for run in ('a', 'b'):
        (tmp_path / run).mkdir()
        copy = shutil.copy(checkpoint, tmp_path / run / 'epoch_8.pth')
        for protocol in ('--linear', '--knn'):
            assert main(['eval', str(copy), '--data', str(folder), protocol, *FAST]) == 0
    files = sorted(tmp_path.glob('work_dirs/eval/*/figures.json'))
    assert [file.parent.name[:10] for file in files] == ['a_epoch_8_', 'b_epoch_8_']
    for file in files:
        kinds = [figure['protocol'].split()[0] for figure in json.loads(file.read_text())]
        assert kinds == ['weighted', 'weighted', 'logistic']


def shake_norms(model):
    """Without this, the residual branches of timm are multiplied by 0."""
    torch.manual_seed(0)
    for tensor in model.state_dict().values():
        if tensor.is_floating_point() and tensor.ndim == 1:
            tensor.uniform_(0.5, 1.5)
    return model


def features(model, folder):
    """What the model itself makes of the test images."""
    dataset = open_splits(str(folder), 32)[0]['test']
    mean, std = (torch.tensor(IMAGENET[key]).view(1, 3, 1, 1) for key in ('mean', 'std'))
    images = torch.stack([dataset[i]['inputs'] for i in range(len(dataset))])
    with torch.no_grad():
        return model.eval()((images.flip(1) - mean) / std).numpy()


@pytest.mark.parametrize(
    ('build', 'suffix'),
    [(torchvision.models.get_model, 'pth'), (timm.create_model, 'safetensors')],
)
def test_weights_of_other_libraries_give_their_features(build, suffix, folder, tmp_path):
    model = shake_norms(build('resnet18'))
    path = tmp_path / f'resnet18.{suffix}'
    (torch.save if suffix == 'pth' else save_file)(model.state_dict(), path)
    data = ['--data', str(folder), '--size', '32', '--out', str(tmp_path)]
    assert main(['eval', str(path), *data, '--knn', *FAST]) == 0
    found = read_features(tmp_path / 'test.safetensors')
    model.fc = torch.nn.Identity()
    np.testing.assert_allclose(found.features, features(model, folder), rtol=1e-5, atol=1e-6)


def test_a_config_of_mmpretrain_names_what_the_shapes_do_not_tell(folder, tmp_path, capsys):
    model = shake_norms(timm.create_model('resnext50_32x4d', num_classes=0))
    torch.save(model.state_dict(), tmp_path / 'resnext50.pth')
    job = ['eval', str(tmp_path / 'resnext50.pth'), '--data', str(folder), '--size', '32']
    job += ['--out', str(tmp_path), '--knn', *FAST]
    assert main(job) == 2
    assert 'give the config it was trained by with --config' in capsys.readouterr().err
    configs = Path(get_installed_path('mmpretrain')) / '.mim' / 'configs'
    config = configs / 'resnext' / 'resnext50-32x4d_8xb32_in1k.py'
    assert main([*job, '--config', str(config)]) == 0
    found = read_features(tmp_path / 'test.safetensors')
    np.testing.assert_allclose(found.features, features(model, folder), rtol=1e-5, atol=1e-6)


def test_mistakes_end_in_one_sentence(evaluated, tmp_path, checkpoint, folder, network, capsys):
    data, good = make_folder(tmp_path / 'data'), str(checkpoint)
    (data / 'ant' / '0.png').write_bytes(b'<html>')
    state = network.state_dict()
    del state['layer3.1.bn2.running_var']
    torch.save(state, tmp_path / 'x.pth')
    train = str(evaluated / 'train.safetensors')
    torch.save(random_network(1).state_dict(), tmp_path / 'other.pth')
    out = tmp_path / 'other'
    assert main(['eval', f'{out}.pth', '--data', str(folder), '--out', str(out), *FAST]) == 0
    mixed = [train, str(out / 'test.safetensors')]
    for arguments, message in (
        ([good, '--data', str(data), '--out', str(tmp_path / 'out')], 'repair this file, or'),
        ([str(tmp_path / 'x.pth'), '--data', str(folder)], 'layer3.1.bn2.running_var'),
        ([good], '--data'),
        ([good, '--data', str(folder), '--lowshot', '--confusion'], 'add --knn or --linear'),
        ([train], 'the features of one split'),
        (mixed, 'do not belong together: their weights differ'),
        ([train] * 3, '3 files given'),
        ([good] * 2, 'is a checkpoint, and two files must be those of features'),
        ([str(tmp_path)], 'train.safetensors is missing'),
    ):
        assert main(['eval', *arguments, *FAST]) == 2
        error = capsys.readouterr().err.strip().splitlines()[-1]
        assert error.startswith('ttl eval: ')
        assert message in error
