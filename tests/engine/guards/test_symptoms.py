"""Each injected failure is named within 50 iterations of becoming visible, a sound run is not."""

import re

import cv2
import numpy as np
import pytest
import torch
from mmengine.registry import MODELS
from torch import nn

from tests.helpers.toy_run import WITHOUT_TARGET, log_file, run, write_config
from ttl_mm.engine.guards.symptoms import SymptomsHook, Weights, symptoms_of_weights, views_of
from ttl_mm.errors import UserError
from ttl_mm.gauges.symptoms import coarse_shares, displacement, identical_share
from ttl_mm.models import TTLAlgorithm

STEPS = 80
WITHIN = 50  # iterations
LOOP = f"dict(type='IterBasedTrainLoop', max_iters={STEPS})"
VIEWS = """[
    dict(type='ttl_mm.RandomViews', views=[dict(size=32, num=2{})]), dict(type='PackInputs'),
]"""
SAME = ', area=(1.0, 1.0), ratio=(1.0, 1.0), flip=0.0, jitter=0.0, grayscale=0.0, blur=0.0'
WITH_TARGET = (
    WITHOUT_TARGET.replace('target_momentum=None', 'target_momentum={}')
    .replace('predictor=None', "predictor=dict(type='NonLinearNeck', in_channels=8, "
             'hid_channels=8, out_channels=8, with_avg_pool=False)')
    .replace('both_views=True, gather_negatives=True', '')
    .replace('deputy_temperature=0.1, ', '')
    .replace('(1, 4)', '(1, 2)')
)  # fmt: skip
TARGET = "default_hooks['target_update'] = dict(type='ttl_mm.TargetUpdateHook', horizon_iters=80)\n"
RATE = 'optim_wrapper["optimizer"]["lr"] *= {}\nparam_scheduler = []\n'
MUON = 'optim_wrapper["optimizer"] = dict(type="ttl_mm.Muon", lr={})\nparam_scheduler = []\n'
SOUND = 0.1  # times the rate of other toys: batches are of four images here
POLES = """
custom_imports['imports'].append('tests.engine.guards.test_symptoms')
model['neck'] = dict(type='PolesNeck', after=30)
"""
NAMES = ('learning rate too large', 'target network does not move', 'identical views',
         'images look like noise', 'lie on a few poles')  # fmt: skip


@MODELS.register_module(force=True)
class PolesNeck(nn.Module):
    """Projections that fall onto two opposite poles after some passes."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
        self.passes, self.after = 0, after

    def forward(self, features):
        rows = self.layer(features[-1].mean((2, 3)))
        self.passes += self.training
        if self.passes <= 2 * self.after:  # two views
            return rows
        signs = (-1.0) ** torch.arange(len(rows))[:, None]
        return signs * torch.ones_like(rows) + 1e-4 * rows


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
    """22 pictures of colored disks, and 22 of noise, of 96 pixels."""
    rng, root = np.random.default_rng(0), tmp_path_factory.mktemp('images')
    for i in range(22):
        picture = np.full((96, 96, 3), rng.integers(0, 256, 3), np.uint8)
        center, color = rng.integers(15, 80, 2).tolist(), rng.integers(0, 256, 3).tolist()
        cv2.circle(picture, center, int(rng.integers(10, 40)), color, -1)
        noise = rng.integers(0, 256, (96, 96, 3), dtype=np.uint8)
        for name, image in (('pictures', picture), ('noise', noise)):
            (root / name).mkdir(exist_ok=True)
            cv2.imwrite(str(root / name / f'{i}.png'), image)
    return root


@pytest.fixture
def named(tmp_path, folders):
    """A function that trains and returns what was named, and at which iteration."""

    def train(images='pictures', views='', model=WITHOUT_TARGET, more=''):
        settings = dict(loop=LOOP, model=model, pipeline=VIEWS.format(views), more=more)
        checkpoint = "dict(type='ttl_mm.CheckpointHook', save_last=False)"
        path = tmp_path / 'config.py'
        config = write_config(path, folders / images, checkpoint=checkpoint, **settings)
        codes = run(config, tmp_path / 'work')
        text = log_file(tmp_path / 'work').read_text()
        assert codes == [0], text[-3000:]
        lines = [line for line in text.splitlines() if ' - ERROR - ' in line]
        return {
            name: int(re.search(r'iteration (\d+)', line)[1])
            for line in reversed(lines)
            for name in NAMES
            if name in line
        }

    return train


def test_a_sound_run_has_no_symptom(named):
    more = TARGET + RATE.format(SOUND)
    assert named(model=WITH_TARGET.format(0.99), more=more) == {}


def test_a_rate_100_times_too_large(named):
    assert named(more=RATE.format(100 * SOUND))['learning rate too large'] <= WITHIN


@pytest.mark.parametrize(('rate', 'names'), [(0.3, set()), (30, {'learning rate too large'})])
def test_matrices_that_keep_their_length_may_turn_further(named, rate, names):
    assert named(more=MUON.format(rate)).keys() == names


@pytest.mark.parametrize('momentum', [1.0, 0.9999999])
def test_a_target_that_does_not_move(named, momentum):
    found = named(model=WITH_TARGET.format(momentum), more=TARGET)
    assert found['target network does not move'] <= WITHIN


def test_identical_views(named):
    assert named(views=SAME)['identical views'] <= WITHIN


def test_noise_images(named):
    assert named('noise')['images look like noise'] <= WITHIN


def test_two_poles(named):
    assert 30 < named(more=POLES)['lie on a few poles'] <= 30 + WITHIN


def test_measures_of_symptoms_equal_plain_computations():
    rng = np.random.default_rng(0)
    shapes = ((3, 5), (2, 2), (7,))
    before = [*(rng.normal(size=shape) for shape in shapes), np.zeros((2, 2))]
    after = [w + rng.normal(size=w.shape) for w in before]
    moved = [np.linalg.norm(a - b) / np.linalg.norm(b) for b, a in zip(before[:3], after)]
    found = displacement(*([torch.from_numpy(w) for w in some] for some in (before, after)))
    assert found == pytest.approx(np.median(moved))
    images = rng.integers(0, 256, (5, 3, 16, 24))
    shares = []
    for image in images.mean(1):
        cells = [image[4 * i : 4 * i + 4, 6 * j : 6 * j + 6] for i in range(4) for j in range(4)]
        shares.append(np.var([cell.mean() for cell in cells]) / np.var(image))
    assert coarse_shares(torch.from_numpy(images)).tolist() == pytest.approx(shares, rel=1e-4)
    assert not len(coarse_shares(torch.zeros(2, 3, 8, 8)))  # of one color
    view = torch.arange(24).reshape(2, 3, 2, 2)
    assert identical_share(view, view.clone()) == 1
    assert identical_share(view, torch.cat([view[:1], view[:1]])) == 0.5
    assert identical_share(view, view[..., :1]) == 0


def test_weights_that_are_no_longer_numbers_are_a_rate_too_large():
    was, broken = [torch.ones(2, 2)], [torch.full((2, 2), torch.nan)]
    (found,) = symptoms_of_weights(Weights(was, []), Weights(broken, []), 25)
    assert found[0] == 'learning rate too large'
    assert not list(symptoms_of_weights(Weights([], []), Weights([], []), 25))


def test_batches_without_views_are_left_alone():
    image = torch.zeros(3, 8, 8)
    for batch in (None, {}, {'inputs': torch.zeros(2, 3, 8, 8)}, {'inputs': [image, image]}):
        assert views_of(batch) == []
    assert len(views_of({'inputs': [[image, image], [image, image]]})) == 2
    with pytest.raises(UserError, match='interval=0'):
        SymptomsHook(interval=0)


def test_targets_of_ours_are_found():
    model = TTLAlgorithm(
        backbone=dict(type='mmpretrain.ResNet_CIFAR', depth=18, base_channels=4, stem_channels=4),
        neck=dict(type='mmpretrain.NonLinearNeck', in_channels=32, hid_channels=8, out_channels=8),
        head=dict(type='ttl_mm.TruncatedTripletHead', predictor=None),
    )
    weights = Weights.of(model)
    assert len(weights.target) == len(weights.online) + 2 > 10  # and the neck
