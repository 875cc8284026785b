"""A resumed run whose config asks for another learning rate or schedule gets it.

The state of an optimizer and of its schedules holds the old settings, so loading it would undo what
the user changed. Where something changed, the new schedules are run again from the beginning to the
place of the checkpoint, and only the memory of the optimizer (its momentum) comes from the file.
"""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from ttl_mm.engine.state.train_state import config_text, read_config_text
from ttl_mm.errors import UserError

_OF_THE_STEP = ('optimizer', 'paramwise_cfg', 'constructor')  # of optim_wrapper


def schedule_changed(saved_config: str, cfg) -> bool:
    """Whether optimizer or schedules of a config are others than those of a checkpoint."""
    return _schedule(read_config_text(saved_config)) != _schedule(
        read_config_text(config_text(cfg))
    )


def _schedule(config: Mapping[str, Any]) -> dict[str, Any]:
    wrapper = config.get('optim_wrapper') or {}
    schedulers = config.get('param_scheduler') or []
    found: dict[str, Any] = {key: wrapper.get(key) for key in _OF_THE_STEP}
    found['schedulers'] = schedulers
    listed = schedulers if isinstance(schedulers, list) else [schedulers]
    if any(isinstance(s, Mapping) and 'end' not in s for s in listed):
        # such a schedule ends with the run
        loop = config.get('train_cfg') or {}
        found['length'] = [loop.get('max_epochs'), loop.get('max_iters')]
    return found


def check_optimizer(saved_config: str, cfg) -> None:
    """Refuse another kind of optimizer, whose memory the checkpoint does not have.

    Raises:
        UserError: As said.
    """
    old, new = (
        (read_config_text(text).get('optim_wrapper') or {}).get('optimizer', {}).get('type')
        for text in (saved_config, config_text(cfg))
    )
    if old != new:
        raise UserError(
            f'the checkpoint was trained with {old} and the config says {new}, which cannot go on '
            'from its state: set the optimizer back, or start a new run from these weights with '
            '--cfg-options load_from=FILE and another --work-dir.'
        )


# what schedules of mmengine count iterations by
_LENGTHS = ('begin', 'end', 'T_max', 'total_steps', 'step_size', 'milestones', 'periods')


def stretched(schedulers: Any, factor: float) -> Any:
    """The configs of schedules, with those that count iterations made so many times longer.

    >>> stretched([dict(type='LinearLR', end=6, by_epoch=False)], 2 / 3)
    [{'type': 'LinearLR', 'end': 4, 'by_epoch': False}]
    """
    if factor == 1 or not isinstance(schedulers, (Mapping, list, tuple)):
        return schedulers
    if not isinstance(schedulers, Mapping):
        return [stretched(scheduler, factor) for scheduler in schedulers]
    if 'type' not in schedulers:  # of several optimizers
        return {name: stretched(some, factor) for name, some in schedulers.items()}
    if schedulers.get('by_epoch', True):
        return schedulers
    result = dict(schedulers)
    for name in _LENGTHS:
        if isinstance(value := result.get(name), (list, tuple)):
            result[name] = [round(factor * number) for number in value]
        elif isinstance(value, (int, float)):
            result[name] = max(round(factor * value), int(value > 0))
    if 'Exponential' in str(result['type']) and 'gamma' in result:
        result['gamma'] **= 1 / factor
    return result


class NewSchedule:
    """Learning rates and schedules as the config has them, at a place in the run.

    Args:
        runner: With fresh optimizer and schedules.
        epoch: Whole epochs done.
        iteration: Iterations done.
        length: Iterations of an epoch.
    """

    def __init__(self, runner, epoch: int, iteration: int, length: int) -> None:
        self._schedulers = list(flat_schedulers(runner.param_schedulers))
        self._run(epoch, iteration, length)
        self._settings = [_settings(group) for group in parameter_groups(runner.optim_wrapper)]
        self._states = [scheduler.state_dict() for scheduler in self._schedulers]

    def _run(self, epoch: int, iteration: int, length: int) -> None:
        by_epoch = [s for s in self._schedulers if s.by_epoch]
        by_iteration = [s for s in self._schedulers if not s.by_epoch]
        epochs = 0
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')  # steps of schedules without steps of the optimizer
            for done in range(1, iteration + 1):
                for scheduler in by_iteration:
                    scheduler.step()
                if done % length == 0 and epochs < epoch:
                    epochs += 1
                    for scheduler in by_epoch:
                        scheduler.step()

    def put_back(self, runner) -> str:
        """Undo what loading the checkpoint did to them; returns a sentence for the log."""
        before = sorted({group['lr'] for group in parameter_groups(runner.optim_wrapper)})
        for group, settings in zip(parameter_groups(runner.optim_wrapper), self._settings):
            group.update(settings)
        for scheduler, state in zip(self._schedulers, self._states):
            scheduler.load_state_dict(state)
        now = sorted({group['lr'] for group in parameter_groups(runner.optim_wrapper)})
        rates = ' -> '.join(', '.join(f'{rate:.4g}' for rate in some) for some in (before, now))
        return f'Learning rate and schedule follow the config from here on: {rates}.'


def flat_schedulers(schedulers: Any) -> Iterator[Any]:
    """The schedules of one or several optimizers."""
    if isinstance(schedulers, Mapping):
        for some in schedulers.values():
            yield from flat_schedulers(some)
    else:
        yield from schedulers or []


def parameter_groups(wrapper: Any) -> Iterator[dict[str, Any]]:
    """The parameter groups of one or several optimizers."""
    for one in wrapper.values() if hasattr(wrapper, 'values') else [wrapper]:
        yield from one.optimizer.param_groups


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name != 'params'}
