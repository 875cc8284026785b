"""End training when validation no longer improves."""

from mmengine.hooks import Hook

from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class ValidationStopHook(Hook):
    """End the run after ``patience`` validations in a row without a new best value.

    A resumed run remembers the count; mmengine's hook of a similar name starts at 0.

    Args:
        metric: A metric of validation, the larger the better.
        patience: How many validations to wait for a better value.
    """

    priority = 'LOW'  # before the checkpoint, which saves the count

    def __init__(self, metric: str, patience: int) -> None:
        if patience < 1:
            raise ValueError(f'patience={patience}: at least 1 is needed')
        self.metric, self.patience = metric, patience
        self.best: float | None = None
        self.waited = 0

    def state_dict(self) -> dict:
        return {'best': self.best, 'waited': self.waited}

    def load_state_dict(self, state: dict) -> None:
        self.best, self.waited = state['best'], state['waited']

    def before_train(self, runner) -> None:
        """A run that was interrupted after its last validation has nothing left to do."""
        runner.train_loop.stop_training = self.waited >= self.patience

    def after_val_epoch(self, runner, metrics: dict[str, float] | None = None) -> None:
        """Count."""
        value = (metrics or {}).get(self.metric)
        if value is None:
            return
        if self.best is None or value > self.best:
            self.best, self.waited = float(value), 0
            return
        self.waited += 1
        if self.waited >= self.patience:
            runner.train_loop.stop_training = True
            runner.logger.info(
                f'{self.metric} was no better than {self.best:.2f} in {self.waited} validations: '
                'training ends here'
            )
