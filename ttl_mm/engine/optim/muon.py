"""Muon: SGD with momentum whose updates of matrices are orthogonal."""

from itertools import groupby

import torch
from torch import Tensor

from ttl_mm.errors import UserError
from ttl_mm.registry import OPTIMIZERS

#: of the polynomial a·s + b·s³ + c·s⁵ that takes every singular value s in (0, 1] toward 1
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
STEPS = 5


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
            matrices = sorted((p for p in params if p.ndim > 1), key=_rows_and_columns)
            for _, same in groupby(matrices, key=_rows_and_columns):
                self._move_matrices(list(same), group)
            for p in params:
                if p.ndim <= 1:
                    grad = p.grad.add(p, alpha=group['weight_decay'])
                    p.sub_(self._with_momentum(p, grad, group['momentum']), alpha=group['lr'])
        return loss

    def _move_matrices(self, params: list[Tensor], group: dict) -> None:
        """Update matrices of one shape together: (K, R, C)."""
        updates = [self._with_momentum(p, p.grad, group['momentum']).flatten(1) for p in params]
        orthogonal = orthogonalized(torch.stack(updates))
        weights = torch.stack([p.flatten(1) for p in params])
        norm = _norm(weights)
        rate = group['lr'] * group['matrix_rate']
        moved = weights - rate * norm / _norm(orthogonal).clamp_(min=1e-12) * orthogonal
        moved *= norm / _norm(moved).clamp_(min=1e-12)
        for p, new in zip(params, moved):
            p.copy_(new.view(p.shape))

    def _with_momentum(self, p: Tensor, grad: Tensor | None, momentum: float) -> Tensor:
        assert grad is not None  # those without one were left out
        state = self.state[p]
        if 'momentum_buffer' not in state:
            state['momentum_buffer'] = torch.zeros_like(p)
        buffer = state['momentum_buffer'].mul_(momentum).add_(grad)
        return grad + momentum * buffer


def orthogonalized(matrices: Tensor, steps: int = STEPS) -> Tensor:
    """Matrices (K, R, C) with their singular vectors, and singular values near 1 (0.7 to 1.2).

    From X = M / |M| each step takes X to (a + b·G + c·G²)·X with G = X·Xᵀ (Newton-Schulz). All
    steps are polynomials of the first G, so they are collected on the smaller side of the matrix.

    >>> torch.linalg.svdvals(orthogonalized(torch.tensor([[[3.0, 0, 0], [0, 1.0, 0]]])))
    tensor([[1.1337, 0.7530]])
    """
    if matrices.shape[1] > matrices.shape[2]:
        return orthogonalized(matrices.mT, steps).mT
    dtype = torch.promote_types(matrices.dtype, torch.float32)
    x = matrices.to(dtype)
    x = x / _norm(x).clamp_(min=1e-12)
    gram = x @ x.mT  # (K, R, R)
    unit = torch.eye(gram.shape[1], dtype=dtype, device=x.device)
    product = unit
    a, b, c = COEFFICIENTS
    for _ in range(steps):
        factor = a * unit + b * gram + c * (gram @ gram)
        product = factor @ product
        gram = factor @ gram @ factor
    return (product @ x).to(matrices.dtype)


def _norm(matrices: Tensor) -> Tensor:
    return torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True)


def _rows_and_columns(p: Tensor) -> tuple[int, int]:
    return p.shape[0], p.numel() // max(1, p.shape[0])
