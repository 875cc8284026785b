"""The probe sees what an own forward pass sees, and the training does not see the probe."""

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from tests.helpers.digits_run import logged, train_digits
from tests.helpers.two_processes import in_two_processes
from ttl_mm.datasets import Digits
from ttl_mm.engine import ProbeHook
from ttl_mm.errors import UserError
from ttl_mm.evaluation import linear_classify

DIGITS = {'type': 'ttl_mm.Digits', 'pipeline': [{'type': 'PackInputs'}]}
PROBE = {
    'type': 'ttl_mm.ProbeHook', 'interval': 2, 'batch_size': 70, 'linear': True,
    'train': DIGITS | {'split': 'train', 'indices': 300},
    'test': DIGITS | {'split': 'test', 'indices': 150},
}  # fmt: skip


def train(work_dir, **hooks):
    """Three epochs of three iterations; the run, and the lines of the log with the probe."""
    loop = {'by_epoch': True, 'max_epochs': 3}
    runner = train_digits(work_dir, images=192, batch_size=64, loop=loop, **hooks)
    return runner, logged(work_dir, 'probe/knn_top1')


@pytest.fixture(scope='module')
def probed(tmp_path_factory):
    return train(tmp_path_factory.mktemp('probed'), probe=PROBE)


@pytest.fixture
def probe(probed):
    return next(hook.probe for hook in probed[0].hooks if isinstance(hook, ProbeHook))


def test_training_is_bit_equal_with_and_without(probed, tmp_path):
    expected = train(tmp_path)[0].model.state_dict()
    found = probed[0].model.state_dict()
    assert expected.keys() == found.keys()
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []


def test_measured_at_the_start_every_interval_and_at_the_end(probed):
    places = [(line['epoch'], line['iter'], line['step']) for line in probed[1]]
    assert places == [(0, 0, 0), (2, 6, 6), (3, 9, 9)]


def test_the_linear_probe_may_be_rarer_and_the_best_checkpoint_is_found_by_knn(tmp_path):
    checkpoint = {'type': 'ttl_mm.CheckpointHook', 'save_best': 'probe/knn_top1'}
    probe = PROBE | {'interval': 1, 'linear_interval': 2}
    _, lines = train(tmp_path, probe=probe, checkpoint=checkpoint)
    with_linear = {line['epoch']: 'probe/linear_top1' in line for line in lines}
    assert with_linear == {0: True, 1: False, 2: True, 3: True}  # and at the start and the end
    best = 1 + int(np.argmax([line['probe/knn_top1'] for line in lines[1:]]))
    saved = torch.load(tmp_path / 'best_probe_knn_top1.pth', weights_only=True)
    assert saved['meta']['iter'] == 3 * best


def features(backbone, split, count):
    """An own forward pass, image by image."""
    dataset = Digits(split)
    images = np.stack([dataset[i]['img'] for i in range(count)]).transpose(0, 3, 1, 2)
    labels = [dataset[i]['gt_label'] for i in range(count)]
    backbone.eval()
    with torch.no_grad():
        outputs = [
            backbone(torch.from_numpy((image[None] - 78.0) / 96.0).float())[-1].mean((2, 3))
            for image in images.astype(np.float64)
        ]
    return torch.cat(outputs).numpy(), np.array(labels)


def test_equals_classifiers_on_an_own_forward_pass(probed, probe):
    model, last = probed[0].model, probed[1][-1]
    train_x, train_y = features(model.backbone, 'train', 300)
    test_x, test_y = features(model.backbone, 'test', 150)
    knn = KNeighborsClassifier(20, metric='cosine', weights=lambda d: np.exp((1 - d) / 0.07))
    expected = 100 * knn.fit(train_x, train_y).score(test_x, test_y)
    assert last['probe/knn_top1'] == pytest.approx(expected, abs=0.01)
    # 300 samples of 128 features are separable: where a fit stops on its way to infinity depends on
    # the last digits, so it gets the hook's features, which are those of the own pass
    train, labels = probe.features(model, 'train')
    test, truth = probe.features(model, 'test')
    np.testing.assert_allclose(train, train_x, atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(test, test_x, atol=1e-5, rtol=1e-4)
    right = linear_classify(train, labels, test) == truth
    assert last['probe/linear_top1'] == pytest.approx(100 * right.double().mean().item(), abs=0.01)


def test_max_train_spreads_over_the_dataset(probed, probe, monkeypatch):
    monkeypatch.setattr(probe, 'max_train', 100)
    found, labels = probe.features(probed[0].model, 'train')
    assert found.shape == (100, 128)
    dataset = probe.datasets['train']
    assert labels.tolist() == [dataset.get_data_info(i)['gt_label'] for i in range(0, 300, 3)]


def test_processes_share_the_work_and_agree(probed, probe, tmp_path, monkeypatch):
    model = probed[0].model
    monkeypatch.setattr(probe, 'max_train', 299)  # an odd number: the shares differ in length
    alone = probe.measure(model)
    assert in_two_processes(tmp_path, lambda rank: probe.measure(model)) == [alone, alone]


def test_impossible_settings_are_refused():
    for name, value in {'interval': 0, 'batch_size': 0, 'k': 3}.items():
        with pytest.raises(UserError, match=f'{name}={value}'):
            ProbeHook(train={}, test={}, **{name: value})
