"""The logged values of a run: kept short, saved and loaded.

mmengine keeps a million of each and copies them all for every new one, so that an iteration late in
a long run took six times as long to log as an early one.
"""

from collections.abc import Mapping
from typing import Any

import torch
from mmengine.logging import HistoryBuffer, MessageHub
from torch import Tensor

KEPT = 500  # values of each name; the default smoothing of the log looks at ten
EVERY = 50  # iterations between two cuts
SAVED = 10_000  # at most, in a checkpoint


def trim_log(runner: Any) -> None:
    """Keep the last values of every name, unless the config asks for averages over longer times.

    To be called every ``EVERY`` iterations, so that no name has more than ``EVERY`` more values.
    """
    logs = runner.message_hub.log_scalars
    for name, log in logs.items() if not runner.log_processor.custom_cfg else ():
        values, counts = log.data
        if len(values) > KEPT:
            logs[name] = HistoryBuffer(values[-KEPT:], counts[-KEPT:])


def log_state(hub: MessageHub) -> dict[str, dict[str, Tensor]]:
    """The tail of every logged value."""
    return {
        name: {
            key: torch.tensor(data[-SAVED:]) for key, data in zip(('values', 'counts'), log.data)
        }
        for name, log in hub.log_scalars.items()
    }


def load_log(hub: MessageHub, tails: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Continue every logged value after its tail."""
    for name, tail in tails.items():
        hub.log_scalars[name] = HistoryBuffer(tail['values'].numpy(), tail['counts'].numpy())
