"""How the images of an epoch are dealt to steps and ranks, from any of them on.

The place of a run in its data is the number of images that it has taken from the order of the
epoch. That number says nothing about batches or ranks, so a run can go on with others: whatever
the sizes were before an interruption, no image comes twice and none is left out.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class EpochSteps:
    """The steps of the rest of an epoch.

    Step s takes the places from ``taken + s * B`` to ``taken + (s + 1) * B`` of the epoch's order,
    B = ``batch * ranks``, and rank r every ``ranks``-th of them from the r-th on.

    Where the last places are no whole step, they are left out with ``drop_last``. Otherwise they
    are a shorter step, in which all ranks take equally many: where the places do not suffice,
    the first ones of the epoch come a second time, less than one per rank.

    Args:
        images: Places of the epoch.
        taken: How many of them were taken before.
        batch: Images of a rank in a step.
        ranks: Number of processes.
        drop_last: Whether an incomplete step is left out.
    """

    images: int
    taken: int
    batch: int
    ranks: int
    drop_last: bool

    def __len__(self) -> int:
        left, size = max(0, self.images - self.taken), self.batch * self.ranks
        return left // size if self.drop_last else -(-left // size)

    def places(self, step: int, rank: int) -> np.ndarray:
        """The places that ``rank`` takes in ``step``, counted from the first of these steps."""
        first = self.taken + step * self.batch * self.ranks
        share = min(self.batch, -(-(self.images - first) // self.ranks))
        return (first + rank + self.ranks * np.arange(share)) % self.images

    def taken_after(self, steps: int) -> int:
        """How many places of the epoch are taken when ``steps`` of these steps are done."""
        return min(self.images, self.taken + steps * self.batch * self.ranks)
