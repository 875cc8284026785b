"""A dataset index that carries everything its random draws depend on.

Augmentation must not depend on the number of workers, on prefetching or on a resume. So the
sampler, which knows the seed and the epoch of the run, hands both to the dataset inside the index.
"""

import numpy as np


class SampleIndex(int):
    """An ``int``, so that any dataset accepts it, with the epoch and the seed of the run.

    Args:
        index: Position in the dataset that is asked for the sample.
        epoch: Number of the epoch, from 0.
        seed: Seed of the run.
        outer: Position in the outermost dataset, which selects the draws; ``index`` by default.

    Example:
        >>> int(SampleIndex(17, epoch=3, seed=0).rng().integers(100))
        27
    """

    epoch: int
    seed: int
    outer: int

    def __new__(cls, index: int, epoch: int = 0, seed: int = 0, outer: int | None = None):
        self = super().__new__(cls, index)
        self.epoch = epoch
        self.seed = seed
        self.outer = int(index) if outer is None else outer
        return self

    def __reduce__(self):
        return SampleIndex, (int(self), self.epoch, self.seed, self.outer)

    def at(self, index: int) -> 'SampleIndex':
        """The position of the same sample in an inner dataset; its draws stay the same."""
        return SampleIndex(index, self.epoch, self.seed, self.outer)

    def rng(self) -> np.random.Generator:
        """A new generator of this sample in this epoch, the same in every process."""
        return np.random.default_rng((self.seed, self.epoch, self.outer))

    def global_seeds(self) -> tuple[int, int, int]:
        """Seeds of the global generators of Python, NumPy and torch for this sample and epoch."""
        sequence = np.random.SeedSequence((self.seed, self.epoch, self.outer, 1))
        return tuple(sequence.generate_state(3).tolist())
