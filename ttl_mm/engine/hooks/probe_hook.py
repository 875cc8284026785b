"""How good are the features by now? The probe of :mod:`ttl_mm.evaluation.probe` while training."""

from functools import partial
from typing import Any

from mmengine.dist import is_main_process
from mmengine.hooks import Hook

from ttl_mm.engine.state.measured import remember
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.rng_state import get_rng_state, set_rng_state
from ttl_mm.engine.state.signs_of_life import report_life
from ttl_mm.errors import UserError
from ttl_mm.evaluation.probe import Probe
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class ProbeHook(Hook):
    """Log ``probe/knn_top1`` and, on request, ``probe/linear_top1`` of the online backbone.

    Both show progress, and are not figures of the linear protocol. They are measured before the
    first iteration, then every ``interval`` epochs and after the last. Training does not notice:
    the random generators, the modes of all modules and the statistics of BatchNorm are afterwards
    what they were, so the weights are bit-equal with and without the hook.

    Args:
        train: Config of a labeled dataset, see :class:`ttl_mm.evaluation.probe.Probe`.
        test: The same, of the images to classify.
        interval: Every how many epochs.
        linear_interval: Every how many epochs the linear probe is fitted, as often as kNN by
            default; a fit can take longer than an epoch on few images.
        **settings: The other arguments of :class:`~ttl_mm.evaluation.probe.Probe`.
    """

    priority = 75  # after the gauges (LOW, 70), before the checkpoint (LOWEST, 100)

    def __init__(
        self,
        train: Any,
        test: Any,
        interval: int = 1,
        linear_interval: int | None = None,
        **settings,
    ) -> None:
        if interval < 1:
            raise UserError(f'interval={interval}: measure every epoch (1) or less often.')
        if 'k' in settings:
            raise UserError(f'ProbeHook(k={settings["k"]}): the number of votes is `neighbors`.')
        self.probe = Probe(train, test, **settings)
        self.interval = interval
        self.linear_interval = linear_interval or interval

    def before_train(self, runner) -> None:
        """Build the datasets; measure where a run starts, and not where it is resumed."""
        rng = get_rng_state()
        self.probe.build_datasets()
        set_rng_state(rng)
        if runner.iter == 0:
            self._measure(runner, 0, self.probe.linear)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        """Measure at the end of an epoch; counted in iterations, so that any loop fits."""
        done, length = runner.iter + 1, len(runner.train_dataloader)
        ends = done == runner.max_iters
        linear = self.probe.linear and (ends or done % (self.linear_interval * length) == 0)
        if ends or linear or done % (self.interval * length) == 0:
            self._measure(runner, done, linear)

    def _measure(self, runner, step: int, linear: bool) -> None:
        rng = get_rng_state()
        try:
            alive = partial(report_life, runner)
            scores = self.probe.measure(unwrap_model(runner.model), linear, alive)
        finally:
            set_rng_state(rng)
        if step:  # for CheckpointHook(save_best=...), which never saves a start
            runner.message_hub.update_scalars(scores)
        if is_main_process():
            runner.logger.info('  '.join(f'{name}: {value:.2f}' for name, value in scores.items()))
        for name, value in scores.items():
            remember(runner, name, step, value)
        epoch = step // len(runner.train_dataloader)
        runner.visualizer.add_scalars({**scores, 'epoch': epoch, 'iter': step}, step=step)
