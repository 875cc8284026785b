"""Definition and fast path against a loop over rows and against the authors' released head."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from ttl_mm.errors import UserError
from ttl_mm.models import deputy_ranks, losses, truncated_triplet_loss
from ttl_mm.models.losses import plain_truncated_triplet_loss

GOLDEN = json.loads((Path(__file__).parent / 'released_head.json').read_text())
RANKS = [(1, 1), (5, 5), (12, 12), (2, 11), (2, 10), 'semi-hard', 'all']
OPTIONS = [{}, {'margin': -1.2}, {'gamma': 1.0}, {'deputy_ceiling': 0.1}]


def loop_loss(
    query, key, ranks, gamma=2.0, margin=-100.0, deputy_ceiling=None, temperature=None, views=1
):
    """Row by row, with vectors and sorted lists alone."""
    losses = []
    images = len(key) // views
    for i, q in enumerate(query):
        distances = [-(q @ z) / (q.norm() * z.norm()) for z in key]
        positive = distances[i]
        distances = sorted(d for j, d in enumerate(distances) if j % images != i)
        if ranks == 'semi-hard':
            farther = [d for d in distances if d > positive]
            deputy = farther[0] if farther else distances[-1]
        else:
            lo, hi = (1, len(distances)) if ranks == 'all' else ranks
            chosen = distances[lo - 1 : hi]
            deputy = sum(chosen) / len(chosen)
            if temperature is not None:
                near = [torch.exp(-d / temperature) for d in chosen]
                deputy = -temperature * torch.log(sum(near) / len(near))
        if deputy_ceiling is not None and deputy > deputy_ceiling:
            deputy = torch.tensor(deputy_ceiling)
        value = gamma * positive - deputy
        losses.append(value if value > margin else torch.zeros_like(value) + margin)
    return torch.stack(losses)


def embeddings(n=24, d=16, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(n, d, dtype=dtype, generator=generator)
    key = query * 0.5 + torch.randn(n, d, dtype=dtype, generator=generator)
    return query.requires_grad_(), key


@pytest.mark.parametrize('loss', [truncated_triplet_loss, plain_truncated_triplet_loss])
@pytest.mark.parametrize('dtype', [torch.float32, torch.float64])
def test_value_and_gradient_equal_a_loop(dtype, loss):
    tolerance = {'rtol': 1e-5, 'atol': 1e-6} if dtype == torch.float32 else {}
    for ranks, options in product(RANKS, OPTIONS):
        query, key = embeddings(dtype=dtype)
        expected = loop_loss(query, key, ranks, **options)
        (expected_grad,) = torch.autograd.grad(expected.mean(), query)
        found = loss(query, key.requires_grad_(), ranks, reduction='none', **options)
        found_grad, of_key = torch.autograd.grad(found.mean(), (query, key), allow_unused=True)
        torch.testing.assert_close(found, expected, **tolerance)
        torch.testing.assert_close(found_grad, expected_grad, **tolerance)
        assert of_key is None


@pytest.mark.parametrize('loss', [truncated_triplet_loss, plain_truncated_triplet_loss])
@pytest.mark.parametrize('views', [1, 2])
def test_soft_deputies_both_views_and_gradients_of_keys_equal_a_loop(views, loss):
    kinds = [(1, 1), (2, 5), 'semi-hard', 'all']
    for ranks, options, temperature in product(kinds, OPTIONS, (None, 0.1)):
        query, key = embeddings(8)
        key = torch.cat([key, *[embeddings(8, seed=9)[1]] * (views - 1)]).requires_grad_()
        options = {**options, 'temperature': temperature, 'views': views}
        expected = loop_loss(query, key, ranks, **options)
        found = loss(query, key, ranks, reduction='none', key_gradient=True, **options)
        torch.testing.assert_close(found, expected)
        weights = torch.linspace(0.5, 1.5, len(query), dtype=torch.float64)  # of unequal rows
        pairs = [torch.autograd.grad(x @ weights, (query, key)) for x in (found, expected)]
        torch.testing.assert_close(*pairs)


def test_a_soft_deputy_lies_between_the_hardest_and_the_mean():
    query, key = embeddings()
    options = {'reduction': 'none', 'gamma': 1.0}
    hardest, mean = (truncated_triplet_loss(query, key, r, **options) for r in ((2, 2), (2, 9)))
    soft = [
        truncated_triplet_loss(query, key, (2, 9), temperature=t, **options)
        for t in (1e-4, 0.1, 1e4)
    ]
    torch.testing.assert_close(soft[0], hardest, rtol=0, atol=1e-3)  # T·log(8) apart
    torch.testing.assert_close(soft[2], mean, rtol=0, atol=1e-3)
    assert ((mean < soft[1]) & (soft[1] < hardest)).all()  # a nearer deputy is a larger loss
    one = truncated_triplet_loss(query, key, (3, 3), temperature=0.1, **options)
    torch.testing.assert_close(one, truncated_triplet_loss(query, key, (3, 3), **options))


def test_the_coding_rate_is_half_the_logarithm_of_a_determinant():
    for count, width in ((24, 6), (6, 24), (5, 5)):
        rows, _ = embeddings(count, width)
        z = (rows / rows.norm(dim=1, keepdim=True)).detach().numpy()
        expected = np.linalg.slogdet(np.eye(width) + z.T @ z * width / (count * 0.2))[1]
        found = losses.coding_rate(rows)
        assert found.item() == pytest.approx(expected / (2 * width))
        assert torch.autograd.gradcheck(losses.coding_rate, rows)
    assert losses.coding_rate(torch.eye(8)) > losses.coding_rate(embeddings(8, 8)[0])
    assert losses.coding_rate(torch.eye(8).bfloat16()).dtype == torch.float32


def test_all_negatives_of_both_views_at_a_temperature_are_decoupled_infonce():
    """-s_pos / T + log Σ exp(s_neg / T), but for the constant log(2n - 2)."""
    query, key = embeddings(8)
    other, temperature = embeddings(8, seed=3)[1], 0.2
    keys = torch.cat([key, other])
    similar = torch.cosine_similarity(query[:, None], keys[None], dim=2) / temperature
    own = torch.eye(8, dtype=torch.bool).repeat(1, 2)
    expected = similar.masked_fill(own, -torch.inf).logsumexp(1) - similar.diagonal()
    found = truncated_triplet_loss(
        query, keys, 'all', gamma=1.0, reduction='none', temperature=temperature, views=2
    )
    torch.testing.assert_close(found / temperature + np.log(14), expected)


@pytest.mark.parametrize('loss', [truncated_triplet_loss, plain_truncated_triplet_loss])
def test_gathered_keys_give_each_process_its_rows(loss):
    """The rows of one of three processes, against the keys of all of them."""
    both = dict(temperature=0.1, views=2)  # of 12 images
    (query, key), rows = embeddings(12), slice(4, 8)
    key = torch.cat([key, embeddings(12, seed=9)[1]])
    expected = loop_loss(query, key, (1, 5), **both)[rows]
    found = loss(query[rows], key, (1, 5), reduction='none', offset=4, **both)
    torch.testing.assert_close(found, expected)
    for ranks, options, offset in product([*RANKS, (30, 99)], OPTIONS, (0, 8, 16)):
        (query, key), rows = embeddings(), slice(offset, offset + 8)
        whole = plain_truncated_triplet_loss(query, key, ranks, reduction='none', **options)[rows]
        part = loss(query[rows], key, ranks, reduction='none', offset=offset, **options)
        torch.testing.assert_close(part, whole)
        found, expected = (torch.autograd.grad(x.sum(), query)[0] for x in (part, whole))
        torch.testing.assert_close(found, expected)


def test_the_fast_path_equals_the_definition_where_keys_are_nan():
    soft = {'temperature': 0.1}
    for ranks, options, bad in product(
        [*RANKS, (23, 23), (2, 23)], [*OPTIONS, soft], ([7], range(24))
    ):
        query, key = embeddings()
        key[bad, 3] = torch.nan
        found = truncated_triplet_loss(query, key, ranks, reduction='none', **options)
        expected = plain_truncated_triplet_loss(query, key, ranks, reduction='none', **options)
        torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize('case', GOLDEN['cases'], ids=lambda case: f'n{case["n"]}-{case["seed"]}')
def test_released_head(case):
    random, shape = np.random.RandomState(case['seed']), (case['n'], case['d'])
    query, key = (torch.from_numpy(random.randn(*shape)).float() for _ in range(2))
    query.requires_grad_()
    released = 2 * truncated_triplet_loss(query, key, (2, 10), case['gamma'], margin=-50) + 100
    released.backward()
    assert released.item() == pytest.approx(case['loss'], rel=1e-4)
    assert query.grad.norm().item() == pytest.approx(case['grad_norm'], rel=1e-4)
    assert query.grad[0, :4].tolist() == pytest.approx(case['grad_first_row'], rel=1e-4)


def test_ranks_of_a_deputy():
    assert deputy_ranks(103) == (52, 52)
    assert deputy_ranks(103, k=5) == (5, 5)
    assert deputy_ranks(103, k=5, smoothed=True) == (2, 11)
    for count in (1, 2, 3, 89, 103, 104, 195):
        median = torch.arange(1, count + 1).median()
        assert deputy_ranks(count) == (median, median)
    for settings in ({'k': 0}, {'k': 2.5}, {'k': True}, {'smoothed': True}):
        with pytest.raises(UserError, match=str(settings.get('k', 'smoothed'))):
            deputy_ranks(103, **settings)
    assert deputy_ranks(3, k=52) == (3, 3)
    assert deputy_ranks(4, k=5, smoothed=True) == (2, 4)
    assert deputy_ranks(1, k=5, smoothed=True) == (1, 1)
    assert deputy_ranks(0) == (1, 1)


def test_a_second_backward_pass_accumulates_and_second_derivatives_are_refused():
    query, key = embeddings()
    loss = truncated_triplet_loss(query, key, (2, 10))
    loss.backward(retain_graph=True)
    once = query.grad.clone()
    loss.backward()
    torch.testing.assert_close(query.grad, 2 * once)
    loss = truncated_triplet_loss(query, key, (2, 10))
    # the gradient is in closed form: one of it would silently be zero
    (grad,) = torch.autograd.grad(loss, query, create_graph=True)
    with pytest.raises(RuntimeError, match='once_differentiable'):
        grad.sum().backward()


def test_clipped_rows_have_no_gradient_and_count_in_the_mean():
    query, key = embeddings()
    values = truncated_triplet_loss(query, key, (5, 5), reduction='none').detach()
    margin = values.median().item()  # this row lies exactly at the floor
    loss = truncated_triplet_loss(query, key, (5, 5), margin=margin)
    assert loss.item() == pytest.approx(values.clamp(min=margin).mean().item())
    loss.backward()
    clipped = values <= margin
    assert clipped.sum() == 12
    assert not query.grad[clipped].any()
    assert (query.grad[~clipped].norm(dim=1) > 1e-4).all()


def test_extreme_values_are_reached_and_collapse_is_minus_one():
    """Values lie within [-3, 3] at gamma = 2: the ends are reached, and neither is clipped."""
    x = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert truncated_triplet_loss(x, x, (1, 1)).item() == pytest.approx(-3)
    assert truncated_triplet_loss(x, -x, (1, 1)).item() == pytest.approx(3)
    same = torch.ones(16, 8)
    for ranks in RANKS:
        assert truncated_triplet_loss(same, same, ranks).item() == pytest.approx(-1)


def test_small_batches_clamp_the_window_and_one_image_has_no_loss():
    for images, ranks in product([2, 10, 11], RANKS):
        query, key = embeddings(images)
        last = images - 1
        window = ranks if isinstance(ranks, str) else [min(rank, last) for rank in ranks]
        expected = loop_loss(query, key, window)
        torch.testing.assert_close(truncated_triplet_loss(query, key, ranks), expected.mean())
    query, key = embeddings(1)
    loss = truncated_triplet_loss(query, key, (5, 5))
    loss.backward()
    assert loss.item() == 0
    assert not query.grad.any()


def test_duplicates_share_their_loss_and_zero_vectors_are_orthogonal():
    query, key = embeddings(12)
    query, key = torch.cat([query.detach()] * 2).requires_grad_(), torch.cat([key] * 2)
    for ranks in RANKS:
        loss = truncated_triplet_loss(query, key, ranks, reduction='none')
        torch.testing.assert_close(loss, loop_loss(query, key, ranks))
        torch.testing.assert_close(loss[:12], loss[12:])
    query, key = embeddings()
    query = query.detach().index_fill(0, torch.tensor([3]), 0).requires_grad_()
    loss = truncated_triplet_loss(query, key, (2, 10), reduction='none')
    loss.sum().backward()
    assert loss[3] == 0
    assert query.grad.isfinite().all()
    key[5] = 0
    loss = truncated_triplet_loss(query, key, (1, 1), reduction='none')
    nearest = torch.cosine_similarity(query[5], key)
    assert loss[5].item() == pytest.approx(nearest[torch.arange(24) != 5].max().item())


def test_nan_negative_is_passed_over_unless_the_window_reaches_it():
    """It is nobody's negative and spoils nobody's gradient; as a positive it shows."""
    others = torch.arange(24) != 7
    for ranks, bad in product(
        [(1, 1), (5, 5), (2, 10), 'semi-hard'], [torch.nan, -torch.nan, torch.inf]
    ):
        query, key = embeddings()
        expected = loop_loss(query[others], key[others], ranks)
        (expected_grad,) = torch.autograd.grad(expected.sum(), query)
        key[7, 3] = bad
        loss = truncated_triplet_loss(query, key, ranks, reduction='none')
        (grad,) = torch.autograd.grad(loss.sum(), query)
        assert loss[7].isnan()
        torch.testing.assert_close(loss[others], expected)
        torch.testing.assert_close(grad[others], expected_grad[others])
    for ranks in [(23, 23), (2, 23), 'all']:  # of 22 negatives that are left
        query, key = embeddings()
        key[7, 3] = torch.nan
        loss = truncated_triplet_loss(query, key, ranks, reduction='none')
        assert loss[others].isnan().all()


def test_ceiling_stops_the_push_and_keeps_the_pull():
    """With every deputy beyond the ceiling, the gradient is that of the positive alone."""
    query, key = embeddings()
    loss = truncated_triplet_loss(query, key, (23, 23), deputy_ceiling=0.0)
    (grad,) = torch.autograd.grad(loss, query)
    pull = -2 * torch.cosine_similarity(query, key).mean()
    torch.testing.assert_close(loss, pull)
    torch.testing.assert_close(grad, torch.autograd.grad(pull, query)[0])


def test_reductions_and_half_precision():
    query, key = embeddings()
    rows = truncated_triplet_loss(query, key, (5, 5), reduction='none')
    assert rows.shape == (24,)
    total = truncated_triplet_loss(query, key, (5, 5), reduction='sum')
    torch.testing.assert_close(total, rows.sum())
    torch.testing.assert_close(truncated_triplet_loss(query, key, (5, 5)), rows.sum() / 24)
    with pytest.raises(UserError, match='median'):
        truncated_triplet_loss(query, key, (5, 5), reduction='median')
    with pytest.raises(UserError, match="ranks='easy'"):
        truncated_triplet_loss(query, key, 'easy')
    for dtype in (torch.bfloat16, torch.float16):
        query, key = (x.detach().to(dtype) for x in embeddings(104, 64))
        loss = truncated_triplet_loss(query, key, (2, 10))
        assert loss.dtype == torch.float32
        assert loss == truncated_triplet_loss(query.float(), key.float(), (2, 10))
