"""The shipped data recipes: ours and the stock one describe the same views."""

import ttl_mm.registry  # noqa: F401  isort: skip
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import Compose
from mmengine.registry import init_default_scope

from tests.helpers.images import CHINA
from tests.helpers.paths import ROOT
from ttl_mm.datasets.view_params import View

DATASETS = ROOT / 'configs/_base_/datasets'


def loader(name: str) -> Config:
    return Config.fromfile(DATASETS / f'{name}.py').train_dataloader


def test_only_the_pipeline_differs():
    ours, stock = loader('imagenet'), loader('imagenet_stock')
    assert ours.dataset.pop('pipeline') != stock.dataset.pop('pipeline')
    assert ours == stock


def test_both_make_two_views():
    init_default_scope('mmpretrain')
    for name in ('imagenet', 'imagenet_stock'):
        pipeline = Compose(loader(name).dataset.pipeline)
        packed = pipeline({'img_path': str(CHINA), 'rng': np.random.default_rng(0)})
        assert [view.shape for view in packed['inputs']] == [(3, 224, 224)] * 2
        assert {view.dtype for view in packed['inputs']} == {torch.uint8}


@pytest.mark.parametrize('number', [0, 1])
def test_both_describe_the_same_views(number):
    ours = View(**loader('imagenet').dataset.pipeline[0].views[number])
    stock = loader('imagenet_stock').dataset.pipeline[1].transforms[number]
    steps = {step.type: step for step in stock}
    jitter = steps['RandomApply'].transforms[0]
    described = {
        'size': (steps['RandomResizedCrop'].scale,) * 2,
        'flip': steps['RandomFlip'].prob,
        'jitter': steps['RandomApply'].prob,
        'grayscale': steps['RandomGrayscale'].prob,
        'blur': steps['GaussianBlur'].prob,
        'sigma': steps['GaussianBlur'].magnitude_range,
        'solarize': steps['Solarize'].prob if 'Solarize' in steps else 0.0,
        **{name: jitter[name] for name in ('brightness', 'contrast', 'saturation', 'hue')},
    }
    assert described == {name: getattr(ours, name) for name in described}
