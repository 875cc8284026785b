"""Muon: SGD with momentum whose updates of matrices are orthogonal."""

from collections.abc import Sequence
from itertools import groupby, islice

import torch
from torch import Tensor

from ttl_mm.compat.torch_private import foreach_add, foreach_add_, foreach_mul_
from ttl_mm.errors import UserError
from ttl_mm.registry import OPTIMIZERS

#: of the polynomial a·s + b·s³ + c·s⁵ that takes every singular value s in (0, 1] toward 1
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5
BLOCK = 128  # rows


@OPTIMIZERS.register_module()
class Muon(torch.optim.Optimizer):
    """SGD with Nesterov momentum; the update of a matrix W is made orthogonal first.

    With the momentum buffer b <- m·b + g of the gradient g, and u = g + m·b::

        W <- W - lr·matrix_rate·(|W| / |O|)·O,   O = orthogonalized(u)

    Then W is scaled back to the norm it had. So all directions of a layer learn at one speed, and
    each step changes the same share of every layer. That fits layers that a normalization
    follows, which do not depend on the norm of their weights. The weights of a convolution are the
    matrix (out channels, inputs). Other tensors, biases and scales, are trained by plain SGD with
    Nesterov momentum and weight decay.

    Args:
        params: Parameters or groups of them.
        lr: The rate of SGD, which schedules change.
        momentum: The share m.
        weight_decay: Of the tensors that are no matrices; matrices keep their norm.
        matrix_rate: The rate of matrices as a share of ``lr``.
    """

    def __init__(
        self, params, lr: float, momentum: float = 0.9, weight_decay: float = 0.0,
        matrix_rate: float = 0.3,
    ) -> None:  # fmt: skip
        if not (lr >= 0 and 0 <= momentum < 1 and weight_decay >= 0 and matrix_rate > 0):
            raise UserError(
                f'Muon: lr={lr}, momentum={momentum}, weight_decay={weight_decay}, matrix_rate='
                f'{matrix_rate}: use a momentum in [0, 1), a matrix_rate above 0, and no negative '
                'rate or decay.'
            )
        super().__init__(
            params,
            dict(lr=lr, momentum=momentum, weight_decay=weight_decay, matrix_rate=matrix_rate),
        )

    @torch.no_grad()
    def step(self, closure=None):
        """One update of all parameters that have a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [p for p in group['params'] if p.grad is not None]
            self._move_matrices([p for p in params if p.ndim > 1], group)
            self._move_vectors([p for p in params if p.ndim <= 1], group)
        return loss

    def _move_matrices(self, params: list[Tensor], group: dict) -> None:
        updates = self._with_momentum(params, _grads(params), group['momentum'])
        directions = orthogonalized([update.flatten(1) for update in updates])
        rate = group['lr'] * group['matrix_rate']
        for p, direction in zip(params, directions):
            weights = p.flatten(1)
            norm = weights.norm()
            step = rate * norm / direction.norm().clamp_(min=1e-12)
            moved = weights - step * direction
            moved *= norm / moved.norm().clamp_(min=1e-12)
            p.copy_(moved.view(p.shape))

    def _move_vectors(self, params: list[Tensor], group: dict) -> None:
        if params:
            grads = list(foreach_add(_grads(params), params, alpha=group['weight_decay']))
            updates = self._with_momentum(params, grads, group['momentum'])
            foreach_add_(params, updates, alpha=-group['lr'])

    def _with_momentum(
        self, params: list[Tensor], grads: list[Tensor], momentum: float
    ) -> list[Tensor]:
        if not params:
            return []
        for p in params:
            if 'momentum_buffer' not in self.state[p]:
                self.state[p]['momentum_buffer'] = torch.zeros_like(p)
        buffers = [self.state[p]['momentum_buffer'] for p in params]
        foreach_mul_(buffers, momentum)
        foreach_add_(buffers, grads)
        return list(foreach_add(grads, buffers, alpha=momentum))


def orthogonalized(matrices: Sequence[Tensor], steps: int = STEPS) -> list[Tensor]:
    """Matrices (R, C) with their singular vectors, and singular values near 1 (0.7 to 1.2).

    From X = M / |M| each step takes X to (a + b·G + c·G²)·X with G = X·Xᵀ (Newton-Schulz). All
    steps are polynomials of the first G, so they are collected on the smaller side of the matrix,
    and matrices whose smaller sides are equal take them together. A smaller side of more than
    :data:`BLOCK` is taken in blocks of so many rows, each a matrix of its own, which costs much
    less.

    >>> torch.linalg.svdvals(orthogonalized([torch.tensor([[3.0, 0, 0], [0, 1.0, 0]])])[0])
    tensor([1.1337, 0.7530])
    """
    wide = [(m if m.shape[0] <= m.shape[1] else m.mT).to(_precise(m.dtype)) for m in matrices]
    blocks = [block for x in wide for block in x.split(BLOCK)]
    unit = [x / x.norm().clamp_(min=1e-12) for x in blocks]
    factors: dict[int, Tensor] = {}
    order = sorted(range(len(unit)), key=lambda i: len(unit[i]))
    for _, same in groupby(order, key=lambda i: len(unit[i])):
        chosen = list(same)
        product = _newton_schulz(torch.stack([unit[i] @ unit[i].mT for i in chosen]), steps)
        factors |= dict(zip(chosen, product))
    made = (factors[i] @ x for i, x in enumerate(unit))
    found = [torch.cat(list(islice(made, -(-len(x) // BLOCK)))) for x in wide]
    return [(o if m.shape[0] <= m.shape[1] else o.mT).to(m.dtype) for o, m in zip(found, matrices)]


def _newton_schulz(gram: Tensor, steps: int) -> Tensor:
    """The product (K, R, R) of the factors of all steps, from the first G (K, R, R)."""
    a, b, c = COEFFICIENTS
    unit = a * torch.eye(gram.shape[1], dtype=gram.dtype, device=gram.device)
    product = None
    for step in range(steps):
        factor = torch.baddbmm(unit + b * gram, gram, gram, alpha=c)
        product = factor if product is None else factor @ product
        if step + 1 < steps:
            gram = factor @ gram @ factor
    assert product is not None
    return product


def _grads(params: list[Tensor]) -> list[Tensor]:
    return [p.grad for p in params if p.grad is not None]  # those without one were left out


def _precise(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
