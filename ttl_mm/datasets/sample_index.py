"""A dataset index that knows which draw of its sample is meant.

Augmentation must not depend on the number of workers, on prefetching or on a resume. So the
sampler, which knows the seed and the epoch, hands both to the dataset inside the index::

    sampler -> SampleIndex(17, epoch=3, seed=0) -> dataset[...] -> index.rng() -> transforms
"""

import numpy as np


class SampleIndex(int):
    """An ``int`` (any dataset accepts it) with the epoch and the seed of the run."""

    epoch: int
    seed: int

    def __new__(cls, index: int, epoch: int = 0, seed: int = 0) -> 'SampleIndex':
        self = super().__new__(cls, index)
        self.epoch = epoch
        self.seed = seed
        return self

    def __reduce__(self):
        return SampleIndex, (int(self), self.epoch, self.seed)

    def rng(self) -> np.random.Generator:
        """The generator of this sample in this epoch, the same in every process."""
        return np.random.default_rng((self.seed, self.epoch, int(self)))
