"""The ranks that a run is made for, and the processes that it has at the moment.

A run is defined by its ranks: each takes a batch of its own in every iteration, with negatives from
that batch alone. If there are fewer processes than ranks, every process does the work of several
ranks, one after another, and their gradients add up before the optimizer steps. So an iteration,
the images of an optimizer step, schedules and the order of the data stay what they were.
"""

import os
from typing import NamedTuple

from mmengine.dist import get_dist_info

from ttl_mm.errors import UserError

ENVIRONMENT = 'TTL_RANKS'  # how many ranks a new run is made for, if not as many as processes


class RunRanks(NamedTuple):
    """Ranks of a run, and this process among those that share them."""

    ranks: int
    process: int
    processes: int

    @property
    def mine(self) -> range:
        """The ranks whose work this process does."""
        return range(self.process, self.ranks, self.processes)

    @property
    def parts(self) -> int:
        """How many they are, the same for all processes."""
        return self.ranks // self.processes

    def alone(self) -> 'RunRanks':
        """A rank for every process."""
        return self._replace(ranks=self.processes)

    @classmethod
    def of(cls, saved: int | None = None) -> 'RunRanks':
        """Of the processes that are there now.

        Args:
            saved: Ranks of the run that goes on; None for a new one.
        """
        process, processes = get_dist_info()
        return share(saved or _wanted() or processes, process, processes)


def share(ranks: int, process: int, processes: int) -> RunRanks:
    """Ranks in equal shares; where that is not possible, every process is a rank.

    >>> share(4, 1, 2).mine
    range(1, 4, 2)
    >>> share(4, 1, 3).ranks
    3
    """
    divides = ranks % processes == 0
    return RunRanks(ranks if divides else processes, process, processes)


def _wanted() -> int | None:
    text = os.environ.get(ENVIRONMENT)
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 2**16:
        raise UserError(f'{ENVIRONMENT}={text}: give the number of ranks that the run is made for.')
    return int(text)
