"""Training loops that know their place exactly, and can be put back there.

Both see the same images in the same order: iteration i is batch i % L of epoch i // L, where L is
the number of batches of an epoch.
"""

from typing import Any

from mmengine.runner import BaseLoop, EpochBasedTrainLoop, IterBasedTrainLoop

from ttl_mm.datasets.train_loader import train_loader
from ttl_mm.datasets.train_samples import Skipped
from ttl_mm.engine.state.rng_state import get_rng_state, set_rng_state
from ttl_mm.registry import LOOPS


class ExactLoop(BaseLoop):
    """What the two loops share: batches from any position, and generators that are put back."""

    counts_epochs: bool
    dataloader: Any

    def __init__(self, runner, dataloader, *args, **kwargs) -> None:
        super().__init__(runner, dataloader, *args, **kwargs)
        self.dataloader = train_loader(self.dataloader, runner.seed)
        self.skipped: list[Skipped] = []  # bad images met on the way to the current batch
        self.validated = -1  # where the last validation took place
        self._rng: dict | None = None

    def resume_at(self, epoch: int, iteration: int, validated: int, rng: dict | None) -> None:
        """Continue after ``epoch`` whole epochs and ``iteration`` steps, with these generators."""
        self._epoch, self._iter, self.validated, self._rng = epoch, iteration, validated, rng

    def _restore_rng(self) -> None:
        if self._rng is not None:
            set_rng_state(self._rng)
            self._rng = None

    def _batches(self, epoch: int, start: int):
        """The batches of an epoch from number ``start`` on."""
        self.dataloader.batch_sampler.set_position(epoch, start)
        for batch in self.dataloader:
            self.skipped = batch.skipped
            yield batch.data

    def _validate(self) -> None:
        """Validate if it is time and was not done here; the random generators do not notice."""
        self._decide_current_val_interval()
        here, end = self._iter, self._max_iters
        if self.counts_epochs:
            here, end = self._epoch, self._max_epochs
        if self.runner.val_loop is None or here < max(self.val_begin, 1) or here == self.validated:
            return
        if here % self.val_interval == 0 or here == end:
            before = get_rng_state()
            self.validated = here
            self.runner.val_loop.run()
            set_rng_state(before)


@LOOPS.register_module()
class EpochLoop(ExactLoop, EpochBasedTrainLoop):
    """mmengine's epoch loop; a checkpoint from the middle of an epoch continues there."""

    counts_epochs = True

    def run(self):
        self.runner.call_hook('before_train')
        if self._iter == self._epoch * len(self.dataloader):
            self._restore_rng()
            self._validate()  # a checkpoint is saved at the end of an epoch, before validation
        while self._epoch < self._max_epochs and not self.stop_training:
            self.run_epoch()
            self._validate()
        self.runner.call_hook('after_train')
        return self.runner.model

    def run_epoch(self) -> None:
        """Train the rest of the current epoch."""
        start = self._iter - self._epoch * len(self.dataloader)
        self.runner.call_hook('before_train_epoch')
        self._restore_rng()
        self.runner.model.train()
        for index, batch in enumerate(self._batches(self._epoch, start), start):
            self.run_iter(index, batch)
        self.runner.call_hook('after_train_epoch')
        self._epoch += 1


@LOOPS.register_module()
class IterLoop(ExactLoop, IterBasedTrainLoop):
    """mmengine's iteration loop; it seeks to its place instead of reading up to it."""

    counts_epochs = False

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        del self.dataloader_iterator  # of mmengine, over the loader without exact positions

    def run(self):
        self.runner.call_hook('before_train')
        self.runner.call_hook('before_train_epoch')
        self._restore_rng()
        self._validate()  # a checkpoint is saved at the end of an iteration, before validation
        while self._iter < self._max_iters and not self.stop_training:
            for batch in self._batches(*divmod(self._iter, len(self.dataloader))):
                self.runner.model.train()
                self.run_iter(batch)
                self._validate()
                if self._iter >= self._max_iters or self.stop_training:
                    break
        self.runner.call_hook('after_train_epoch')
        self.runner.call_hook('after_train')
        return self.runner.model
