"""No step with a gradient that is not finite."""

import math
from collections.abc import Mapping

import torch
from mmengine.hooks import Hook, RuntimeInfoHook
from torch import Tensor

from ttl_mm.compat.torch_private import foreach_norm
from ttl_mm.engine.state.exit_codes import TrainingStopped
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class FiniteHook(Hook):
    """Void a step whose gradient has NaN or infinity; stop, or skip up to ``max_skips`` times.

    The gradient is checked right before the optimizer uses it, which costs one wait for the device
    per step. After the all-reduce it is the same on all ranks, so all of them decide alike. Weights
    and optimizer state stay as they were; when skipping, so do the buffers (BatchNorm would keep a
    NaN forever).

    Args:
        max_skips: How many bad iterations to skip in the whole run before it stops.
    """

    priority = 'HIGH'

    def __init__(self, max_skips: int = 0) -> None:
        self.max_skips = max_skips
        self.skips = 0
        self._voided = False  # the step of this iteration
        self._counted = False  # a bad loss whose gradient still waits for its step
        self._handles: list = []
        self._good: list[tuple[Tensor, Tensor]] = []  # every buffer and its last good value

    def state_dict(self) -> dict:
        return {'skips': self.skips}

    def load_state_dict(self, state: dict) -> None:
        self.skips = state['skips']

    def before_train(self, runner) -> None:
        wrapper = runner.optim_wrapper
        wrappers = wrapper.values() if hasattr(wrapper, 'values') else [wrapper]
        self._handles = [w.optimizer.register_step_pre_hook(self._before_step) for w in wrappers]
        self._loss_is_logged = any(isinstance(hook, RuntimeInfoHook) for hook in runner.hooks)
        if self.max_skips:
            self._good = [(x, x.clone()) for x in unwrap_model(runner.model).buffers()]

    def after_train(self, runner) -> None:
        for handle in self._handles:
            handle.remove()

    def _before_step(self, optimizer, args, kwargs) -> None:
        parameters = [p for group in optimizer.param_groups for p in group['params']]
        if not all_finite([p.grad for p in parameters if p.grad is not None]):
            self._voided = True
            for parameter in parameters:
                parameter.grad = None  # the optimizer passes over it

    def _loss(self, runner, outputs: Mapping) -> float:
        """The loss of this iteration: RuntimeInfoHook has brought it to the host already."""
        if self._loss_is_logged and 'loss' in outputs:
            return float(runner.message_hub.get_scalar('train/loss').current())
        return torch.as_tensor(outputs.get('loss', 0.0)).detach().item()

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        loss = self._loss(runner, outputs or {})
        voided, self._voided = self._voided, False
        if math.isfinite(loss) and (not voided or self._counted):
            self._counted = self._counted and not voided
            for buffer, good in self._good:
                good.copy_(buffer)
            return
        self._counted = not voided
        self.skips += 1
        what = 'a gradient that is not finite' if math.isfinite(loss) else f'loss {loss}'
        what += f' at iteration {runner.iter + 1}'
        if self.skips > self.max_skips:
            raise TrainingStopped(
                f'{what}; no step was made with it and nothing is saved. Resume with a smaller '
                'learning rate, or skip up to N such iterations: '
                '--cfg-options +default_hooks.finite.max_skips=N'
            )
        for buffer, good in self._good:
            buffer.copy_(good)
        runner.logger.warning(f'{what}: skipped ({self.skips} of {self.max_skips})')
        runner.message_hub.update_info('skipped_steps', self.skips)


def all_finite(tensors: list[Tensor]) -> bool:
    """Whether every value is finite: one pass over the data, one wait for the device."""
    return not tensors or bool(torch.stack(foreach_norm(tensors)).sum().isfinite())
