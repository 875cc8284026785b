"""LARS without a host-device sync."""

from collections import defaultdict
from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

from ttl_mm.compat import torch_private as private
from ttl_mm.errors import UserError
from ttl_mm.registry import OPTIMIZERS

_OPTIONS = ('lr', 'momentum', 'weight_decay', 'dampening', 'eta', 'nesterov', 'eps', 'lars_exclude')


def trust_ratios(params: list[Tensor], grads: list[Tensor], eta: float, decay: float, eps: float):
    """η·|w| / (|g| + decay·|w| + ε) of every tensor, (T,); 1 where a norm is zero."""
    w = torch.stack(private.foreach_norm(params))
    g = torch.stack(private.foreach_norm(grads))
    ratio = eta * w / (g + decay * w + eps)
    return torch.where((w > 0) & (g > 0), ratio, 1.0)


@OPTIMIZERS.register_module()
class LARS(Optimizer):
    """Layer-wise adaptive rate scaling (You, Gitman and Ginsburg, 2017) of SGD with momentum.

    For an adapted tensor, with the learning rate inside the momentum buffer::

        u = lr · η·|w| / (|g| + decay·|w| + ε) · (g + decay·w)
        v <- momentum·v + (1 - dampening)·u        (v = u at the first step)
        w <- w - v

    A tensor in a group with ``lars_exclude=True`` takes plain SGD, with a ratio of 1. The norms
    stay on the device, and tensors with equal settings are updated together.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        eta: float = 0.001,
        nesterov: bool = False,
        eps: float = 1e-8,
        lars_exclude: bool = False,
    ):
        defaults = dict(
            lr=lr, momentum=momentum, weight_decay=weight_decay, dampening=dampening, eta=eta,
            nesterov=nesterov, eps=eps, lars_exclude=lars_exclude,
        )  # fmt: skip
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict) -> None:
        """Refuse settings that cannot be meant, in the defaults and in every group."""
        settings = {**self.defaults, **param_group}
        for name in ('lr', 'momentum', 'weight_decay', 'eta', 'eps'):
            if not settings[name] >= 0:
                raise UserError(f'LARS: {name}={settings[name]} must not be negative.')
        if settings['nesterov'] and (settings['momentum'] == 0 or settings['dampening'] != 0):
            raise UserError(
                f'LARS: nesterov=True with momentum={settings["momentum"]} and '
                f'dampening={settings["dampening"]}: it needs a momentum and no dampening.'
            )
        super().add_param_group(param_group)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # the state of another LARS may know fewer settings
            group.update({**self.defaults, **group})

    @torch.no_grad()
    def step(self, closure: Callable | None = None):
        """One step; returns what ``closure`` returns."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for settings, params in self._buckets().items():
            self._update(params, **dict(zip(_OPTIONS, settings)))
        return loss

    def _buckets(self) -> dict[tuple, list[Tensor]]:
        """Tensors with a gradient by their settings: mmengine makes one group per tensor."""
        buckets: dict[tuple, list[Tensor]] = defaultdict(list)
        for group in self.param_groups:
            settings = tuple(group[name] for name in _OPTIONS)
            buckets[settings].extend(p for p in group['params'] if p.grad is not None)
        return {settings: params for settings, params in buckets.items() if params}

    def _update(
        self, params, lr, momentum, weight_decay, dampening, eta, nesterov, eps, lars_exclude
    ) -> None:
        grads = [p.grad for p in params]
        updates = list(private.foreach_add(grads, params, alpha=weight_decay))
        if lars_exclude:
            private.foreach_mul_(updates, lr)
        else:
            rates = lr * trust_ratios(params, grads, eta, weight_decay, eps)
            private.foreach_mul_(updates, rates.unbind())
        if momentum:
            buffers = self._momentum(params, updates, momentum, dampening)
            if nesterov:
                private.foreach_add_(updates, buffers, alpha=momentum)
            else:
                updates = buffers
        private.foreach_sub_(params, updates)

    def _momentum(self, params, updates, momentum, dampening) -> list[Tensor]:
        """The momentum buffers after taking ``updates``, made from them at the first step."""
        old, old_updates = [], []
        for p, update in zip(params, updates):
            if 'momentum_buffer' in self.state[p]:
                old.append(self.state[p]['momentum_buffer'])
                old_updates.append(update)
            else:
                self.state[p]['momentum_buffer'] = update.clone()
        if old:
            private.foreach_mul_(old, momentum)
            private.foreach_add_(old, old_updates, alpha=1 - dampening)
        return [self.state[p]['momentum_buffer'] for p in params]
