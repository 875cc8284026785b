"""The probe sees what an own forward pass sees, and the training does not see the probe."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from sklearn.neighbors import KNeighborsClassifier
from torch import distributed, multiprocessing

from tests.helpers.paths import ROOT
from ttl_mm.datasets import Digits
from ttl_mm.engine import ProbeHook, Runner
from ttl_mm.errors import UserError
from ttl_mm.evaluation import linear_classify

(DIGITS,) = (ROOT / 'configs' / 'digits').glob('ttl_*.py')
PACK = [{'type': 'PackInputs'}]


def digits(split, indices):
    return {'type': 'ttl_mm.Digits', 'split': split, 'indices': indices, 'pipeline': PACK}


PROBE = {
    'type': 'ttl_mm.ProbeHook',
    'train': digits('train', 300),
    'test': digits('test', 150),
    'interval': 2,
    'batch_size': 70,
    'linear': True,
}


def train(work_dir, probe, **changes):
    config = Config.fromfile(DIGITS)
    config.train_dataloader.dataset.indices = 192
    config.train_dataloader.batch_size = 64  # 3 iterations an epoch
    config.train_cfg.max_epochs = 3
    config.default_hooks.gauges = None
    config.vis_backends = config.visualizer.vis_backends = [{'type': 'LocalVisBackend'}]
    config.merge_from_dict(changes)
    config.default_hooks.pop('probe', None)  # the recipe's own
    if probe:
        config.default_hooks.probe = probe
    config.work_dir = str(work_dir)
    runner = Runner.from_cfg(config)
    runner.train()
    return runner


def logged(work_dir):
    (log,) = Path(work_dir).glob('*/vis_data/scalars.json')
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [line for line in lines if 'probe/knn_top1' in line]


def probe_of(runner):
    return next(hook.probe for hook in runner.hooks if isinstance(hook, ProbeHook))


@pytest.fixture(scope='module')
def probed(tmp_path_factory):
    work_dir = tmp_path_factory.mktemp('probed')
    return train(work_dir, PROBE), work_dir


def test_training_is_bit_equal_with_and_without(probed, tmp_path):
    expected = train(tmp_path, None).model.state_dict()
    found = probed[0].model.state_dict()
    assert expected.keys() == found.keys()
    assert [name for name in expected if not torch.equal(expected[name], found[name])] == []


def test_measured_at_the_start_every_interval_and_at_the_end(probed):
    places = [(line['epoch'], line['iter'], line['step']) for line in logged(probed[1])]
    assert places == [(0, 0, 0), (2, 6, 6), (3, 9, 9)]


def test_the_linear_probe_may_be_rarer_than_knn(tmp_path):
    train(tmp_path, PROBE | {'interval': 1, 'linear_interval': 2})
    with_linear = {line['epoch']: 'probe/linear_top1' in line for line in logged(tmp_path)}
    assert with_linear == {0: True, 1: False, 2: True, 3: True}  # and at the start and the end


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


def test_equals_classifiers_on_an_own_forward_pass(probed):
    runner, work_dir = probed
    train_x, train_y = features(runner.model.backbone, 'train', 300)
    test_x, test_y = features(runner.model.backbone, 'test', 150)
    knn = KNeighborsClassifier(20, metric='cosine', weights=lambda d: np.exp((1 - d) / 0.07))
    last = logged(work_dir)[-1]
    expected = 100 * knn.fit(train_x, train_y).score(test_x, test_y)
    assert last['probe/knn_top1'] == pytest.approx(expected, abs=0.01)
    # 300 samples of 128 features are separable: where a fit stops on its way to infinity depends on
    # the last digits, so it gets the hook's features, which are those of the own pass
    probe = probe_of(runner)
    train, labels = probe.features(runner.model, 'train')
    test, truth = probe.features(runner.model, 'test')
    np.testing.assert_allclose(train, train_x, atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(test, test_x, atol=1e-5, rtol=1e-4)
    right = linear_classify(train, labels, test) == truth
    assert last['probe/linear_top1'] == pytest.approx(100 * right.double().mean().item(), abs=0.01)


def test_max_train_spreads_over_the_dataset(probed, monkeypatch):
    runner, probe = probed[0], probe_of(probed[0])
    monkeypatch.setattr(probe, 'max_train', 100)
    found, labels = probe.features(runner.model, 'train')
    assert found.shape == (100, 128)
    dataset = probe.datasets['train']
    assert labels.tolist() == [dataset.get_data_info(i)['gt_label'] for i in range(0, 300, 3)]


def measure_share(rank, probe, model, init, results):
    distributed.init_process_group('gloo', init_method=init, rank=rank, world_size=2)
    results.put(probe.measure(model))
    distributed.destroy_process_group()


def test_processes_share_the_work_and_agree(probed, tmp_path, monkeypatch):
    runner, probe = probed[0], probe_of(probed[0])
    monkeypatch.setattr(probe, 'max_train', 299)  # an odd number: the shares differ in length
    alone = probe.measure(runner.model)
    results = multiprocessing.get_context('fork').Queue()
    init = f'file://{tmp_path}/init'
    multiprocessing.start_processes(
        measure_share, (probe, runner.model, init, results), nprocs=2, start_method='fork'
    )
    assert [results.get(), results.get()] == [alone, alone]


def test_best_checkpoint_by_probe(tmp_path):
    save = {'default_hooks.checkpoint.save_best': 'probe/knn_top1'}
    train(tmp_path, {**PROBE, 'interval': 1, 'linear': False}, **save)
    assert (tmp_path / 'best_probe_knn_top1.pth').exists()
    scores = [line['probe/knn_top1'] for line in logged(tmp_path)]
    saved = torch.load(tmp_path / 'best_probe_knn_top1.pth', weights_only=True)
    assert saved['meta']['iter'] == 3 * (1 + int(np.argmax(scores[1:])))


def test_impossible_settings_are_refused():
    for name, value in {'interval': 0, 'batch_size': 0, 'k': 3}.items():
        with pytest.raises(UserError, match=f'{name}={value}'):
            ProbeHook(train={}, test={}, **{name: value})
