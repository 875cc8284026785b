from collections import OrderedDict
from types import SimpleNamespace

import pytest
import torch
from mmengine.logging import MMLogger
from torch import nn

from tests.helpers.digits_run import logged, train_digits
from tests.helpers.two_processes import in_two_processes
from ttl_mm.engine import GaugeHook
from ttl_mm.errors import UserError
from ttl_mm.evaluation.forward import pooled
from ttl_mm.gauges import (
    class_divergence,
    effective_rank,
    false_negative_frequency,
    false_negatives_by_rank,
    feature_std,
)
from ttl_mm.models import TruncatedTripletHead

HOOK = {'type': 'ttl_mm.GaugeHook', 'num_batches': 2}
WHERE = {'epoch', 'iter', 'threads'}
COLLAPSE = {'gauge/std', 'gauge/effective_rank'}
CLUSTERING = {'gauge/class_divergence', 'gauge/pr_omega_a', 'gauge/pr_omega_b'}


class Neck(nn.Linear):
    def forward(self, inputs):
        return (super().forward(pooled(inputs[-1])[0]),)


class Network(nn.Module):
    """The parts that the hook records, called in the order of the algorithm."""

    def __init__(self, deputy=(2, 3), **head):
        super().__init__()
        torch.manual_seed(0)
        self.backbone = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU())
        self.neck, self.target_neck = Neck(6, 5), Neck(6, 5)
        self.head = TruncatedTripletHead(Neck(5, 5), deputy, **head)

    def forward(self, views):
        features = [self.backbone(view) for view in views]
        targets = [self.target_neck((f,))[0] for f in features]
        projections = [self.neck((f,))[0] for f in features]
        predictions = [self.head.predictor((p,))[0] for p in projections]
        return features[0].mean((2, 3)), projections[0], predictions[0], targets[1]


class Epoch:
    """Drives the hook over one epoch of random batches and keeps what the network gave."""

    def __init__(self, model, hook, sizes=(12, 12, 12, 12), labeled=True, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.outputs, self.labels, self.logged = [], [], []
        runner = SimpleNamespace(
            model=model, iter=0, train_dataloader=sizes,
            logger=MMLogger.get_instance('gauges', log_level='ERROR'),
            visualizer=SimpleNamespace(add_scalars=lambda line, step: self.logged.append(line)),
        )  # fmt: skip
        hook.before_train(runner)
        for index, size in enumerate(sizes):
            labels = torch.randint(8, (size, 1), generator=generator)
            samples = [SampleLike(gt_label=label) if labeled else {} for label in labels]
            batch = {'data_samples': samples}
            hook.before_train_iter(runner, index, batch)
            views = torch.randn(2, size, 1, 5, 5, generator=generator)
            self.outputs.append([output.detach() for output in model(views)])
            self.labels.append(labels[:, 0])
            hook.after_train_iter(runner, index, batch)
            runner.iter += 1


class SampleLike(dict):
    gt_label = property(lambda self: self['gt_label'])


def test_gauges_are_those_of_the_last_batches():
    epoch = Epoch(Network(), GaugeHook(num_batches=3))
    features, projections, queries, keys = zip(*epoch.outputs[1:])
    labels = epoch.labels[1:]
    events = [false_negative_frequency(q, k, y, (2, 3)) for q, k, y in zip(queries, keys, labels)]
    (line,) = epoch.logged
    assert line == {
        'epoch': 1,
        'iter': 4,
        'threads': torch.get_num_threads(),
        'gauge/std': pytest.approx(feature_std(torch.cat(projections)), rel=1e-6),
        'gauge/effective_rank': pytest.approx(effective_rank(torch.cat(projections)), rel=1e-6),
        'gauge/class_divergence': pytest.approx(
            class_divergence(torch.cat(features), torch.cat(labels)), rel=1e-5
        ),
        'gauge/pr_omega_a': sum(e.omega for e in events) / 3,
        'gauge/pr_omega_b': sum(e.omega for e in events) / sum(e.b for e in events),
    }


def test_only_what_can_be_measured_is_logged():
    unlabeled = Epoch(Network(), GaugeHook(), labeled=False)
    assert unlabeled.logged[0].keys() == COLLAPSE | WHERE
    without_fixed_ranks = Epoch(Network('semi-hard'), GaugeHook())
    assert without_fixed_ranks.logged[0].keys() == COLLAPSE | {'gauge/class_divergence', *WHERE}
    without_projections = nn.Sequential(OrderedDict(backbone=nn.ReLU()))
    assert Epoch(without_projections, GaugeHook()).logged == []


def test_omega_is_measured_at_the_ranks_of_the_head():
    for deputy, ranks in {'all': (1, 11), 'median': (6, 6), (2, 5): (2, 5), 4: (4, 4)}.items():
        by_head = Epoch(Network(deputy), GaugeHook()).logged
        assert by_head == Epoch(Network('semi-hard'), GaugeHook(ranks=ranks)).logged


def test_a_shorter_last_batch_has_other_ranks_and_is_left_out_of_omega():
    whole = Epoch(Network(), GaugeHook(), sizes=(12, 12)).logged[0]
    with_rest = Epoch(Network(), GaugeHook(), sizes=(12, 12, 5)).logged[0]
    assert with_rest['gauge/pr_omega_a'] == whole['gauge/pr_omega_a']
    assert with_rest['gauge/std'] != whole['gauge/std']


def test_impossible_settings_are_refused():
    for setting in ('num_batches', 'interval'):
        with pytest.raises(UserError, match=f'{setting}=0.* at least 1'):
            GaugeHook(**{setting: 0})


def train(work_dir, loop=None, **hooks):
    """Two epochs of three batches; the model, and the lines of the log with gauges."""
    loop = loop or {'by_epoch': True, 'max_epochs': 2}
    model = train_digits(work_dir, images=48, batch_size=16, loop=loop, **hooks).model
    return model, logged(work_dir, 'gauge/std')


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    collapse = {'type': 'ttl_mm.CollapseHook', 'interval': 2}
    return train(tmp_path_factory.mktemp('gauged'), gauges=HOOK, collapse=collapse)


def test_gauges_of_a_run_are_logged_once_per_epoch_whatever_the_loop_counts(trained, tmp_path):
    by_iteration = train(tmp_path, {'by_epoch': False, 'max_iters': 6}, gauges=HOOK)
    for _, lines in (trained, by_iteration):
        places = [(line['epoch'], line['iter'], line['step']) for line in lines]
        assert places == [(1, 3, 3), (2, 6, 6)]
        assert all(line.keys() >= COLLAPSE | CLUSTERING for line in lines)


def test_a_run_is_bit_equal_without_gauges_and_collapse_guard(trained, tmp_path):
    model, _ = trained
    without = train(tmp_path, collapse=None)[0].state_dict()
    assert all(torch.equal(value, without[key]) for key, value in model.state_dict().items())
    networks = (model.backbone, model.neck, model.head, model.target_neck)
    listeners = [m._forward_hooks for network in networks for m in network.modules()]
    assert not any(listeners)  # nothing stays attached


def measure_as_rank(rank):
    epoch = Epoch(Network(gather_negatives=True), GaugeHook(num_batches=3), seed=rank)
    return epoch.outputs, epoch.labels, epoch.logged


def test_two_processes_measure_their_joined_batches(tmp_path):
    outputs, labels, lines = zip(*in_two_processes(tmp_path, measure_as_rank))
    assert lines[0] == lines[1]
    projections = torch.cat([batch[1] for rank in outputs for batch in rank[1:]])
    omega = []
    for index in (1, 2, 3):  # both processes look for negatives among all keys
        query, key = (torch.cat([rank[index][part] for rank in outputs]) for part in (2, 3))
        joined = torch.cat([rank[index] for rank in labels])
        false = false_negatives_by_rank(query, key, joined)[:, 1:3]
        omega += [false[:12].any().item(), false[12:].any().item()]
    assert lines[0][0]['gauge/effective_rank'] == pytest.approx(effective_rank(projections))
    assert lines[0][0]['gauge/pr_omega_a'] == pytest.approx(sum(omega) / 6)
