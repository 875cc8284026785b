"""The numbers that a resumed run must share with the first one to be the same run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from ttl_mm.compat.mmengine_private import accumulative_counts


@dataclass(frozen=True)
class RunSettings:
    """How many images, in which batches, on how many ranks.

    Ranks are those that the run is made for (:mod:`ttl_mm.engine.state.run_ranks`).
    """

    world_size: int
    batch_size_per_rank: int
    images: int
    iterations_per_epoch: int
    accumulative_counts: int
    seed: int

    @classmethod
    def of(cls, runner) -> 'RunSettings':
        """Of a runner whose training loop is built."""
        loader = runner.train_dataloader
        return cls(
            world_size=runner.train_loop.ranks.ranks,
            batch_size_per_rank=loader.batch_sampler.batch_size or 0,
            images=len(loader.dataset),
            iterations_per_epoch=len(loader),
            accumulative_counts=accumulative_counts(runner.optim_wrapper),
            seed=runner.seed,
        )

    @classmethod
    def from_saved(cls, saved: Mapping[str, int]) -> 'RunSettings':
        """Of a checkpoint; older ones spell the names with spaces.

        Raises:
            ValueError: Not these names, or values that are no whole numbers.
        """
        found = {str(name).replace(' ', '_'): value for name, value in saved.items()}
        names = {field.name for field in fields(cls)}
        if odd := names.symmetric_difference(found):
            raise ValueError(f'expected {sorted(names)}, and {sorted(odd)} differ')
        for name, value in found.items():
            if not isinstance(value, int) or isinstance(value, bool):
                raise ValueError(f'{name} is {value!r}, and a whole number is needed')
        return cls(**found)

    @staticmethod
    def saved_ranks(saved: Mapping[str, int]) -> int | None:
        """Only the number of ranks, which is needed first; None if a checkpoint tells none."""
        ranks = saved.get('world_size', saved.get('world size'))
        return ranks if isinstance(ranks, int) and ranks > 0 else None

    def changes(self, now: 'RunSettings') -> list[str]:
        """'world size 2 -> 1' for every number that is another one now."""
        before, after = asdict(self), asdict(now)
        return [
            f'{name.replace("_", " ")} {before[name]} -> {after[name]}'
            for name in before
            if before[name] != after[name]
        ]

    @property
    def batch_size(self) -> int:
        """Images of one iteration on all ranks."""
        return self.batch_size_per_rank * self.world_size
