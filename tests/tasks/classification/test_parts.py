"""The hooks, the metric and the config of a classifier."""

from argparse import ArgumentTypeError
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.logging import MMLogger

from ttl_mm.errors import UserError
from ttl_mm.tasks.classification.classifier import read_layer
from ttl_mm.tasks.classification.config import Training, classifier_config
from ttl_mm.tasks.classification.finetune_command import share
from ttl_mm.tasks.classification.labels import Split
from ttl_mm.tasks.classification.source import Source
from ttl_mm.tasks.classification.validation_score import ValidationScore
from ttl_mm.tasks.classification.validation_stop_hook import ValidationStopHook

SOURCE = Source('b.pth', {'type': 'ResNet', 'depth': 18}, 512, 64, (1, 2, 3), (4, 5, 6))


def runner():
    loop = SimpleNamespace(stop_training=False)
    return SimpleNamespace(train_loop=loop, logger=MMLogger.get_instance('early'))


def test_a_run_ends_after_so_many_validations_without_a_better_one():
    hook, run = ValidationStopHook('score', patience=2), runner()
    for value, ends in ((1.0, False), (1.0, False), (2.0, False), (1.5, False), (2.0, True)):
        hook.after_val_epoch(run, {'score': value})
        assert run.train_loop.stop_training == ends
    resumed, run = ValidationStopHook('score', patience=2), runner()
    resumed.load_state_dict(hook.state_dict())
    resumed.before_train(run)
    assert run.train_loop.stop_training
    with pytest.raises(ValueError, match='patience=0'):
        ValidationStopHook('score', 0)


def test_of_equally_many_correct_images_the_surer_ones_are_better():
    metric = ValidationScore()

    def score(*rows):
        samples = [{'pred_score': torch.tensor(p), 'gt_label': torch.tensor([0])} for p in rows]
        metric.results = []
        metric.process(None, samples)
        return metric.compute_metrics(metric.results)['score']

    unsure, sure = score((0.6, 0.4), (0.4, 0.6)), score((0.9, 0.1), (0.4, 0.6))
    assert unsure == pytest.approx(100 * (1 + 0.24**0.5) / 2)
    assert 50 < unsure < sure < 100 < score((0.9, 0.1), (0.6, 0.4)) <= 150


def config(tmp_path, images, **choices):
    split = Split(tmp_path, [f'a/{i}.png' for i in range(images)], np.zeros(images, int))
    return classifier_config(
        SOURCE, 2, {'train': split, 'val': split}, tmp_path, Training(**choices), seed=3
    )


def test_the_schedule_is_that_of_the_semi_supervised_recipes_fitted_to_the_images(tmp_path):
    cfg = config(tmp_path, 6400)
    assert cfg.train_cfg.max_epochs == 20
    assert cfg.param_scheduler[0].milestones == [12, 16]
    assert cfg.param_scheduler[0].gamma == 0.2
    assert cfg.optim_wrapper.optimizer.lr == 0.01
    assert not cfg.optim_wrapper.paramwise_cfg
    assert cfg.train_dataloader.dataset.pipeline[1].scale == 64
    assert cfg.model.head.in_channels == 512
    few = config(tmp_path, 20)
    assert few.train_dataloader.batch_size == 20
    assert few.train_cfg == {'type': 'ttl_mm.EpochLoop', 'max_epochs': 200, 'val_interval': 10}
    assert few.param_scheduler[0].milestones == [120, 160]
    chosen = config(tmp_path, 6400, epochs=5, rate=0.1, batch_size=32)
    assert chosen.train_cfg.max_epochs == 5
    assert chosen.optim_wrapper.optimizer.lr == 0.1
    assert chosen.train_dataloader.batch_size == 32
    assert chosen.randomness.seed == 3


def test_shares_are_percent_or_fractions():
    assert (share('10%'), share('0.5'), share('100%')) == (0.1, 0.5, 1.0)
    for text in ('0', '120%', '2', 'ten'):
        with pytest.raises(ArgumentTypeError, match='write a share as 10%'):
            share(text)


@pytest.mark.parametrize(
    ('classes', 'weight', 'message'),
    [
        (None, (2, 4), 'holds no classifier with names of classes'),
        (['a'], (2, 4), 'has 1 class and a layer of shape'),
        (['a', 1], (2, 4), 'has 2 classes and a layer of shape'),
        (['a', 'b'], (3, 4), 'has 2 classes and a layer of shape'),
        (['a', 'b'], None, 'holds no classifier'),
    ],
)
def test_a_file_that_is_no_classifier_is_refused(tmp_path, classes, weight, message):
    state = {'backbone.conv1.weight': torch.ones(2)}
    if weight:
        state |= {'head.fc.weight': torch.ones(weight), 'head.fc.bias': torch.ones(weight[0])}
    path = tmp_path / 'c.pth'
    torch.save({'state_dict': state, 'meta': {'classes': classes}}, path)
    with pytest.raises(UserError, match=message):
        read_layer(path)
