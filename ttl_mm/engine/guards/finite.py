"""No step with a gradient that is not finite, and no run that makes no steps any more."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from mmengine.hooks import Hook, RuntimeInfoHook
from torch import Tensor

from ttl_mm.compat.mmengine_private import accumulative_counts
from ttl_mm.compat.torch_private import foreach_norm
from ttl_mm.engine.state.control_group import AnyRank, gather
from ttl_mm.engine.state.exit_codes import SMALLER_RATE, TrainingStopped
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.registry import HOOKS

LEAST_SCALE = 1.0  # a loss scale below it cannot be what mixed precision needs: the values are bad


@HOOKS.register_module()
class FiniteHook(Hook):
    """Void a step whose gradient has NaN or infinity; stop, or skip up to ``max_skips`` times.

    The gradient is checked right before the optimizer uses it, which costs one wait for the device
    per step. Weights and optimizer state stay as they were. When skipping, so do the buffers
    (BatchNorm would keep a NaN forever), and inside an accumulation the bad iteration is taken out
    of the gradient. All ranks decide alike: the gradient of a step is the same on all of them, and
    a bad loss on one rank is known to all in the next iteration at the latest.

    With mixed precision the loss scaler makes no step with infinity and lowers its scale; that
    happens in every healthy run, and each time is logged (``train/loss_scale``,
    ``train/skipped_steps``). The run stops where it makes no steps any more. Assumed of the scaler:
    it does not call an optimizer's step where it has found infinity; or (fused optimizers) it does,
    and then the gradient is checked here.

    Args:
        max_skips: How many bad iterations to skip in the whole run before it stops.
        max_scaler_skips: After so many steps in a row that the loss scaler skipped, the run stops;
            so it does when the scale falls below 1.
    """

    priority = 'HIGH'

    def __init__(self, max_skips: int = 0, max_scaler_skips: int = 20) -> None:
        if max_scaler_skips < 1:
            raise UserError(f'max_scaler_skips={max_scaler_skips}: it must be at least 1.')
        self.max_skips, self.max_scaler_skips = max_skips, max_scaler_skips
        self.skips = 0  # bad iterations of this run
        self.scaler_skips = 0  # steps of this run that the loss scaler skipped
        self.in_a_row = 0  # of them, since the last step
        self._stepped = self._voided = False  # in this iteration
        self._found: dict[int, str] = {}  # iteration to what was bad in it, not yet reported
        self._handles: list = []
        self._good: list[tuple[Tensor, Tensor]] = []  # every buffer and its last good value
        self._parameters: list[Tensor] = []  # whose gradients are kept, inside an accumulation
        self._gradients: list[Tensor | None] = []  # after the last good iteration

    def state_dict(self) -> dict:
        return {
            'skips': self.skips, 'scaler_skips': self.scaler_skips, 'in_a_row': self.in_a_row,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping) -> None:
        self.skips = state['skips']
        self.scaler_skips = state.get('scaler_skips', 0)  # earlier checkpoints have none
        self.in_a_row = state.get('in_a_row', 0)

    def before_train(self, runner) -> None:
        wrapper = runner.optim_wrapper
        self._wrappers: list[Any] = (
            list(wrapper.values()) if hasattr(wrapper, 'values') else [wrapper]
        )
        self._handles = [
            w.optimizer.register_step_pre_hook(self._before_step) for w in self._wrappers
        ]
        scalers = [getattr(w, 'loss_scaler', None) for w in self._wrappers]
        self._scalers = [s for s in scalers if s is not None and s.is_enabled()]  # of float16 alone
        self._scale = self._least_scale()
        self._any_rank = AnyRank()
        self._loss_is_logged = any(isinstance(hook, RuntimeInfoHook) for hook in runner.hooks)
        if self.max_skips:
            model = unwrap_model(runner.model)
            self._good = [(x, x.clone()) for x in model.buffers()]
            if accumulative_counts(wrapper) > 1:
                self._parameters = [p for p in model.parameters() if p.requires_grad]
            self._keep_or_take_back_gradients(good=True)  # of a resumed run

    def after_train(self, runner) -> None:
        for handle in self._handles:
            handle.remove()

    def _before_step(self, optimizer, args, kwargs) -> None:
        self._stepped = True
        parameters = [p for group in optimizer.param_groups for p in group['params']]
        if not all_finite([p.grad for p in parameters if p.grad is not None]):
            self._voided = True
            for parameter in parameters:
                parameter.grad = None  # the optimizer passes over it

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        done = runner.iter + 1
        loss = self._loss(runner, outputs or {})
        stepped, voided = self._stepped, self._voided
        self._stepped = self._voided = False
        by_scaler = self._skipped_by_scaler(stepped, voided)
        if not math.isfinite(loss):
            self._found[done] = f'loss {loss}'
        elif not all_finite([p.grad for p in self._parameters if p.grad is not None]):
            self._found[done] = 'a gradient that is not finite'
        good = not (done in self._found or voided)
        self._keep_or_take_back_buffers(good)
        self._keep_or_take_back_gradients(good or stepped or by_scaler)  # a step clears them
        # a step is voided or skipped on all ranks at once; what only one of them found, the others
        # learn in the next iteration
        elsewhere = self._any_rank.exchange(done in self._found)
        if voided or by_scaler or elsewhere:
            found = {i: what for of_rank in gather(self._found) for i, what in of_rank.items()}
            self._found = {}
            if found:
                self._skip_or_stop(runner, found)
            elif by_scaler:
                self._log_or_stop(runner, done)
            elif voided:
                self._skip_or_stop(runner, {done: 'a gradient that is not finite'})
        if stepped and not voided:
            self.in_a_row = 0
        if self._scalers and (stepped or by_scaler):
            self._scale = self._least_scale()
            runner.message_hub.update_scalar('train/loss_scale', self._scale)
            runner.message_hub.update_scalar('train/skipped_steps', self.scaler_skips)

    def _loss(self, runner, outputs: Mapping) -> float:
        """The loss of this iteration: RuntimeInfoHook has brought it to the host already."""
        if self._loss_is_logged and 'loss' in outputs:
            return float(runner.message_hub.get_scalar('train/loss').current())
        return torch.as_tensor(outputs.get('loss', 0.0)).detach().item()

    def _keep_or_take_back_buffers(self, good: bool) -> None:
        """Remember the buffers if they are good, else put back those of the last good iteration."""
        for buffer, kept in self._good:
            kept.copy_(buffer) if good else buffer.copy_(kept)

    def _keep_or_take_back_gradients(self, good: bool) -> None:
        """The same for gradients that wait for their step."""
        if good:
            self._gradients = [None if p.grad is None else p.grad.clone() for p in self._parameters]
        for parameter, kept in zip(self._parameters, self._gradients) if not good else ():
            parameter.grad = None if kept is None else kept.clone()

    def _skipped_by_scaler(self, stepped: bool, voided: bool) -> bool:
        """Whether a step was due, and a loss scaler kept it from the optimizer."""
        if not self._scalers or not any(w.should_update() for w in self._wrappers):
            return False
        return voided or not stepped

    def _least_scale(self) -> float:
        # adds no wait for the device, since the loss of this iteration has been waited for
        return min((scaler.get_scale() for scaler in self._scalers), default=1.0)

    def _skip_or_stop(self, runner, found: Mapping[int, str]) -> None:
        """Count bad iterations, each once on whatever ranks; the same on all ranks."""
        self.skips += len(found)
        what = ', '.join(f'{what} at iteration {i}' for i, what in sorted(found.items()))
        if self.skips > self.max_skips:
            raise TrainingStopped(
                f'{what}; no step was made with it and nothing is saved. Resume with '
                f'{SMALLER_RATE}, or skip up to N such iterations: '
                '--cfg-options +default_hooks.finite.max_skips=N'
            )
        runner.logger.warning(f'{what}: skipped ({self.skips} of {self.max_skips})')
        runner.message_hub.update_info('skipped_steps', self.skips)

    def _log_or_stop(self, runner, done: int) -> None:
        """The loss is finite and its scaled gradient is not: the scale was too large, or is it?"""
        self.scaler_skips += 1
        self.in_a_row += 1
        scale = self._least_scale()
        what = f'scaled gradient not finite at iteration {done}'
        scales = f'loss scale {self._scale:g} -> {scale:g}'
        fell_too_low = scale < min(LEAST_SCALE, self._scale)
        if fell_too_low or self.in_a_row >= self.max_scaler_skips:
            raise TrainingStopped(
                f'{what}; steps skipped in a row: {self.in_a_row}, {scales}. No scale helps: the '
                'gradient itself is not finite, and nothing was learned since. Resume from the '
                f'checkpoint before with {SMALLER_RATE}, or in full precision (--amp off).'
            )
        runner.logger.warning(f'{what}: step skipped, {scales} ({self.in_a_row} in a row)')


def all_finite(tensors: list[Tensor]) -> bool:
    """Whether every value is finite: one pass over the data, one wait for the device."""
    return not tensors or bool(torch.stack(foreach_norm(tensors)).sum().isfinite())
