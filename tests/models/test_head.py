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


def test_soft_deputy_and_negatives_of_both_views():
    (online, target), (_, other) = pair(), pair(seed=1)
    soft = dict(deputy=(1, 20), gamma=1.0, deputy_temperature=0.1)
    head = TruncatedTripletHead(None, both_views=True, **soft)
    options = dict(gamma=1.0, temperature=0.1)
    keys = torch.cat([target, other])
    expected = 2 * truncated_triplet_loss(online, keys, (1, 20), views=2, **options)
    torch.testing.assert_close(head.compare(online, target, other), expected)
    assert [head.num_negatives(24), TruncatedTripletHead(None).num_negatives(24)] == [46, 23]
    alone = TruncatedTripletHead(None, **soft).compare(online, target, other)
    expected = 2 * truncated_triplet_loss(online, target, (1, 20), **options)
    torch.testing.assert_close(alone, expected)
    with pytest.raises(UserError, match='needs the projections of the other view'):
        head.compare(online, target)


def test_keys_that_carry_a_gradient_get_it():
    head = TruncatedTripletHead(None, deputy=(1, 5), both_views=True)
    for flags in ((True, True, True), (True, False, False)):
        tensors = *pair(), pair(seed=1)[0]
        rows = [x.clone().requires_grad_(flag) for x, flag in zip(tensors, flags)]
        head.compare(*rows).backward()
        assert [row.grad is not None for row in rows] == list(flags)


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
        ({'deputy_temperature': 0, 'deputy': (1, 5)}, 'deputy_temperature=0'),
        ({'deputy_temperature': 0.1}, r"deputy_temperature=0\.1 .* deputy='median'"),
        ({'coding_rate': -1}, 'coding_rate=-1'),
        ({'deputy_temperature': 0.1, 'deputy': 3}, 'deputy=3 is a single one'),
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


def gathered(rank, both_sides):
    """Gradients in one of two processes; both sides: those of keys too, which come from both."""
    head = TruncatedTripletHead(
        Linear(), deputy=(2, 10), gather_negatives=True, both_views=both_sides
    )
    online, target = (x.chunk(2)[rank].clone().requires_grad_() for x in pair())
    return gradients(head, online, target, both_sides)


def gradients(head, online, target, both_sides):
    key, other = (target, online) if both_sides else (target.detach(), None)
    loss = head.compare(head.predict(online), key, other)
    loss.backward()
    of_target = target.grad if both_sides else torch.zeros_like(target)
    return loss.detach(), online.grad, of_target, head.predictor.fc.weight.grad


@pytest.mark.parametrize('both_sides', [False, True])
def test_two_processes_equal_one_on_the_joined_batch(tmp_path, both_sides):
    losses, *rows, weights = zip(*in_two_processes(tmp_path, gathered, both_sides))
    head = TruncatedTripletHead(Linear(), deputy=(2, 10), both_views=both_sides)
    joined = gradients(head, *(x.requires_grad_() for x in pair()), both_sides)
    # data-parallel training averages over processes
    torch.testing.assert_close((losses[0] + losses[1]) / 2, joined[0])
    for found, expected in zip(rows, joined[1:]):
        torch.testing.assert_close(torch.cat(found) / 2, expected)
    torch.testing.assert_close((weights[0] + weights[1]) / 2, joined[-1])
