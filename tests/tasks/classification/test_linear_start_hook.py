from types import SimpleNamespace

import numpy as np
import torch
from mmengine.model import ImgDataPreprocessor
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import nn

from tests.helpers.images import write_images
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.evaluation.data import evaluation_pipeline
from ttl_mm.tasks.classification.linear_start_hook import C, LinearStartHook
from ttl_mm.tasks.classification.standardize import Standardize


class Model(nn.Module):
    """Pixels as features, two classes."""

    def __init__(self):
        super().__init__()
        self.data_preprocessor = ImgDataPreprocessor()
        self.backbone = nn.Flatten()
        self.neck = nn.Sequential(nn.Identity(), Standardize(3 * 4 * 4))
        self.head = nn.Module()
        self.head.fc = nn.Linear(3 * 4 * 4, 2)


def test_it_starts_as_the_regression_of_scikit_learn_and_a_resumed_run_keeps_its_own(tmp_path):
    for name in ('a', 'b'):
        write_images(tmp_path / name, 12, 4, 4)
    config = dict(data_root=str(tmp_path), pipeline=evaluation_pipeline(4), with_label=True)
    hook, model = LinearStartHook({'type': 'ttl_mm.ImageFolder', **config}, batch_size=5), Model()
    before = model.head.fc.weight.clone()
    hook.before_train(SimpleNamespace(iter=3, model=model))
    assert model.head.fc.weight.equal(before)
    hook.before_train(SimpleNamespace(iter=0, model=model))

    images = ImageFolder(**config)
    pixels = np.stack([images[i]['inputs'].numpy().ravel() for i in range(24)]).astype(float)
    features = StandardScaler().fit_transform(pixels)
    expected = LogisticRegression(C=C / features.shape[1], tol=1e-8, max_iter=1000)
    expected.fit(features, images.get_gt_labels())
    with torch.no_grad():
        logits = model.head.fc(model.eval().neck((torch.tensor(pixels).float(),))[0])
    chances = logits.double().softmax(1).numpy()
    np.testing.assert_allclose(chances, expected.predict_proba(features), atol=2e-3)
