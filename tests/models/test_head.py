import logging

import pytest
import torch
from mmengine.logging import MMLogger
from torch import nn

from tests.helpers.two_processes import in_two_processes
from ttl_mm.errors import UserError
from ttl_mm.models import TruncatedTripletHead, truncated_triplet_loss


class Linear(nn.Module):
    """A predictor, with the tuples of mmpretrain's necks."""

    def __init__(self, dim=8):
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(dim, dim)

    def forward(self, inputs):
        return (self.fc(inputs[0]),)


def pair(rows=24, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, rows, 8, generator=generator).unbind()


def loss_of(head, online, target):
    """The loss of one direction, as the algorithm computes it."""
    return head.compare(head.predict(online), target)


def test_settings_choose_the_deputy_and_are_passed_on_to_the_loss():
    online, target = pair()
    for settings, ranks in (
        ({}, (12, 12)),
        ({'deputy': 'median'}, (12, 12)),
        ({'deputy': 5}, (5, 5)),
        ({'deputy': (2, 10)}, (2, 10)),
        ({'deputy': [2, 10]}, (2, 10)),  # as a config or a command line has it
        ({'deputy': 'semi-hard'}, None),
        ({'deputy': 'all'}, (1, 23)),
    ):
        head = TruncatedTripletHead(Linear(), **settings)
        assert head.window(23) == ranks
        prediction = head.predictor.fc(online)
        expected = 2 * truncated_triplet_loss(prediction, target, ranks or 'semi-hard')
        torch.testing.assert_close(loss_of(head, online, target), expected)
    head = TruncatedTripletHead(None, deputy=5)  # without a predictor projections are compared
    expected = 2 * truncated_triplet_loss(online, target, (5, 5))
    torch.testing.assert_close(loss_of(head, online, target), expected)
    options = dict(gamma=1.5, margin=-0.9, deputy_ceiling=-0.2)
    head = TruncatedTripletHead(Linear(), deputy=3, loss_weight=0.5, **options)
    expected = 0.5 * truncated_triplet_loss(head.predictor.fc(online), target, (3, 3), **options)
    torch.testing.assert_close(loss_of(head, online, target), expected)


def test_invalid_settings_are_refused_at_build_with_the_value():
    for settings, found in (
        ({'deputy': 0}, 'deputy=0'),
        ({'deputy': True}, 'deputy=True'),
        ({'deputy': 2.5}, r'deputy=2\.5'),
        ({'deputy': None}, 'deputy=None'),
        ({'deputy': (3, 2)}, r'\(3, 2\)'),
        ({'deputy': (0, 2)}, r'\(0, 2\)'),
        ({'deputy': (1.5, 2)}, r'\(1\.5, 2\)'),
        ({'deputy': (1, 2, 3)}, r'\(1, 2, 3\)'),
        ({'deputy': 'easy'}, "'easy'"),
        ({'k': 5}, 'k=5: .* Write deputy=k'),
        ({'smoothed': True}, r'smoothed=True: .* deputy=\(2, 2 \* k \+ 1\)'),
        ({'ranks': [2, 10]}, r'ranks=\[2, 10\]: .* ranks as deputy'),
        ({'gamma': 0}, 'gamma=0'),
        ({'gamma': float('nan')}, 'gamma=nan'),
        ({'margin': 100}, 'margin=100'),
        ({'loss_weight': -1}, 'loss_weight=-1'),
        ({'deputy_ceiling': 1.5}, r'deputy_ceiling=1\.5'),
    ):
        with pytest.raises(UserError, match=found):
            TruncatedTripletHead(Linear(), **settings)
    with pytest.raises(TypeError, match="TruncatedTripletHead has no option 'gama'"):
        TruncatedTripletHead(Linear(), gama=1)


def test_computes_in_float32_under_autocast():
    head = TruncatedTripletHead(Linear(), deputy=(2, 10))
    online, target = pair(rows=104)
    expected = loss_of(head, online.bfloat16().float(), target.bfloat16().float())
    with torch.autocast('cpu', dtype=torch.bfloat16):
        assert head.predictor((online,))[0].dtype == torch.bfloat16  # autocast is at work
        found = loss_of(head, online.bfloat16(), target.bfloat16())
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_small_batch_is_logged_once(caplog):
    logger = MMLogger.get_instance('small_batch')  # the newest is the current one
    logger.addHandler(caplog.handler)
    head = TruncatedTripletHead(Linear(), deputy=52)
    for _ in range(3):
        assert loss_of(head, *pair(rows=11)).isfinite()
    logger.removeHandler(caplog.handler)
    (text,) = (r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    assert '10 negatives' in text
    assert 'rank 52' in text


def gathered(rank):
    head = TruncatedTripletHead(Linear(), deputy=(2, 10), gather_negatives=True)
    online, target = (x.chunk(2)[rank].clone() for x in pair())
    loss = loss_of(head, online.requires_grad_(), target)
    loss.backward()
    return loss.detach(), online.grad, head.predictor.fc.weight.grad


def test_two_processes_equal_one_on_the_joined_batch(tmp_path):
    losses, inputs, weights = zip(*in_two_processes(tmp_path, gathered))

    head = TruncatedTripletHead(Linear(), deputy=(2, 10))
    online, target = pair()
    joined = loss_of(head, online.requires_grad_(), target)
    joined.backward()
    # data-parallel training averages over processes
    torch.testing.assert_close((losses[0] + losses[1]) / 2, joined.detach())
    torch.testing.assert_close(torch.cat(inputs) / 2, online.grad)
    torch.testing.assert_close((weights[0] + weights[1]) / 2, head.predictor.fc.weight.grad)
