import json

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from PIL import Image

from tests.helpers.digits_run import DIGITS
from tests.helpers.images import make_folder
from tests.helpers.paths import ROOT
from ttl_mm.cli import main
from ttl_mm.errors import UserError
from ttl_mm.evaluation.sources import from_model, open_source
from ttl_mm.gauges import analyze_features
from ttl_mm.registry import MODELS

BATCH = ['--batch-size', '10', '--batches', '20', '--size', '16']


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp('images'), count=8, size=16, widen=0)


@pytest.fixture(scope='module')
def model():
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = MODELS.build(Config.fromfile(DIGITS).model).eval()
    for parameter in model.target_neck.parameters():
        parameter.data.add_(0.01)  # or else both networks would be the same
    return model


@pytest.fixture(scope='module')
def checkpoint(model, tmp_path_factory):
    path = tmp_path_factory.mktemp('checkpoint') / 'model.pth'
    torch.save({'state_dict': model.state_dict()}, path)
    return path


def images_of(folder):
    """(24, 3, 16, 16) in BGR, normalized as the recipe does, in the order of the folder."""
    paths = sorted(folder.glob('*/*.png'))
    pixels = np.stack([np.asarray(Image.open(path)) for path in paths])[..., ::-1]
    return (torch.tensor(pixels.copy()).permute(0, 3, 1, 2).float() - 78) / 96


def test_the_head_is_ranked_as_it_ranks(folder, model, checkpoint):
    found = from_model(str(checkpoint), str(DIGITS), str(folder), size=16)
    with torch.no_grad():
        maps = model.backbone(images_of(folder))
        query = model.head.predict(model.neck(maps)[0])
        key = model.target_neck(model.target_backbone(images_of(folder)))[0]
    torch.testing.assert_close(found.query, query, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.key, key, rtol=1e-4, atol=1e-5)
    assert found.labels.tolist() == [0] * 8 + [1] * 8 + [2] * 8


def test_backbone_features_are_kept_and_read_again(folder, model, checkpoint, tmp_path):
    found = open_source(str(checkpoint), tmp_path, str(folder), str(DIGITS), size=16)
    with torch.no_grad():
        expected = model.backbone(images_of(folder))[-1].mean((2, 3))
    torch.testing.assert_close(found.features, expected, rtol=1e-4, atol=1e-5)
    again = open_source(str(tmp_path / 'model.features'), tmp_path)
    assert torch.equal(again.features, found.features)
    with pytest.raises(UserError, match='--head needs a checkpoint'):
        open_source(str(tmp_path / 'model.features'), tmp_path, head=True)


def test_the_command_writes_the_numbers_of_the_analysis(folder, checkpoint, tmp_path, capsys):
    out = ['--out', str(tmp_path), '--config', str(DIGITS), '--head', '--ranks', '1', '2..4']
    twice = [str(checkpoint)] * 2  # is analyzed once
    assert main(['analyze', *twice, '--data', str(folder), *BATCH, *out]) == 0
    found = from_model(str(checkpoint), str(DIGITS), str(folder), size=16)
    numbers = {'batch_size': 10, 'ranks': [(1, 1), (2, 4)], 'num_batches': 20}
    head = {'query': found.query, 'key': found.key}
    expected = analyze_features(found.features, found.labels, **numbers, **head)
    numbers = json.loads((tmp_path / 'analysis.json').read_text())['model.pth']
    assert numbers['rates'] == expected.rates
    assert list(numbers['frequencies']) == ['rank 1', 'ranks 2..4']
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / 'index.html')


def test_what_is_missing_or_does_not_fit_is_said(folder, checkpoint, tmp_path, capsys):
    job = ['analyze', str(checkpoint), '--out', str(tmp_path), *BATCH]
    data, configs = ['--data', str(folder)], str(ROOT / 'configs')
    other = [*data, '--head', '--config']
    for arguments, message in (
        ([], 'name labeled images with --data'),
        ([*data, '--head'], 'name its config with --config'),
        ([*data, '--ranks', 'five'], '--ranks five'),
        ([*data, '--ranks', '5..2'], '--ranks 5..2'),
        ([*other, f'{configs}/ttl_r50_8xb104_200e.py'], 'tensors of the model are in'),
        (
            [*other, f'{configs}/linear/linear_r18_digits_1xb256_100e.py'],
            'has model ImageClassifier',
        ),
    ):
        assert main([*job, *arguments]) == 2
        assert message in capsys.readouterr().err
