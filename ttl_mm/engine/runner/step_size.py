"""The images of an optimizer step, which stay the same if the number of ranks changes.

Where they cannot, because the ranks do not divide them, the learning rate follows: as many times
larger or smaller as the step. An iteration has another number of images then, so what counts
iterations is stretched, and goes on by images seen.
"""

from collections.abc import Mapping
from typing import Any

from ttl_mm.compat.mmengine_private import set_accumulation
from ttl_mm.engine.runner.schedule import flat_schedulers, parameter_groups
from ttl_mm.engine.state.run_settings import RunSettings
from ttl_mm.engine.state.train_state import read_config_text
from ttl_mm.errors import counted


class StepSize:
    """What a resumed run makes of the step of the run that it continues.

    Args:
        runner: With its optimizer and training loop.
        own: What the checkpoint says about the run, its part ``ttl_mm``.
    """

    def __init__(self, runner, own: Mapping[str, Any]) -> None:
        before, now = RunSettings.from_saved(own['settings']), RunSettings.of(runner)
        step = before.batch_size * before.accumulative_counts
        self.images = _number(own, 'images_per_step', step)  # of a step of the run as it was begun
        self.rate_before = step / self.images
        # images of an iteration of the run as it was begun
        self.per_iteration = _number(own, 'images_per_iteration', before.batch_size)
        self.stretch_before = self.per_iteration / (before.batch_size or 1)
        counts = now.accumulative_counts
        if _same_settings(own, runner.cfg, before, now):
            counts = before.accumulative_counts
            if now.world_size != before.world_size:
                counts = steps_for(self.images, now.batch_size)
            set_accumulation(runner.optim_wrapper, counts)
        else:
            self.images = now.batch_size * counts  # as the user has it now
            self.rate_before = self.stretch_before = 1.0
            self.per_iteration = now.batch_size or 1
        self.stretch = self.per_iteration / (now.batch_size or 1)
        self.rate = now.batch_size * counts / self.images
        self.sentence = ''
        if now.world_size != before.world_size:
            followed = f'; the learning rate follows, times {self.rate:.4g}'
            self.sentence = (
                f'{counted(now.world_size, "rank")} in place of {before.world_size}: gradients of '
                f'{counted(counts, "iteration")} in place of {before.accumulative_counts} make an '
                f'optimizer step of {now.batch_size * counts} images in place of {step}'
                f'{followed if self.rate != self.rate_before else ""}.'
            )

    def iteration(self, done: int) -> int:
        """The number of the iteration at which as many images are seen as in ``done`` before."""
        return round(done * self.stretch / self.stretch_before)

    def in_words(self, done: int, end: int) -> str:
        """For the log, where iterations count; '' if they are the same."""
        if self.stretch == self.stretch_before:
            return ''
        return f' What counts iterations goes on by images seen: {done:,} of {end:,} are done now.'

    def scale(self, runner) -> None:
        """Let the rates of fresh schedules follow the step."""
        if self.rate == 1:
            return
        for group in parameter_groups(runner.optim_wrapper):
            for name in ('lr', 'initial_lr'):
                if name in group:
                    group[name] *= self.rate
        for scheduler in flat_schedulers(runner.param_schedulers):
            if scheduler.param_name == 'lr':
                scheduler.base_values = [self.rate * value for value in scheduler.base_values]


def _number(own: Mapping[str, Any], name: str, default: int) -> int:
    """Of the checkpoint, if it has a number of images there."""
    value = own.get(name)
    return value if isinstance(value, int) and value > 0 else max(1, default)


def steps_for(images: int, batch: int) -> int:
    """Iterations of ``batch`` images that come nearest to a step of ``images``.

    >>> steps_for(832, 416), steps_for(832, 312), steps_for(832, 1664)
    (2, 3, 1)
    """
    return max(1, round(images / batch))


def _same_settings(own: Mapping[str, Any], cfg, before: RunSettings, now: RunSettings) -> bool:
    """Whether batch and accumulation are as the config had them, so that nobody chose others."""
    old = (read_config_text(own['config']).get('optim_wrapper') or {}).get('accumulative_counts', 1)
    new = (cfg.get('optim_wrapper') or {}).get('accumulative_counts', 1)
    return old == new and before.batch_size_per_rank == now.batch_size_per_rank
