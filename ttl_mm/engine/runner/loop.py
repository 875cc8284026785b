"""Training loops that know their place exactly, and can be put back there.

Both see the same images in the same order. Their place in the data is an epoch and a number of
images taken from its order (:mod:`ttl_mm.datasets.epoch_steps`); unless batch, ranks or data have
changed, iteration i is batch i % L of epoch i // L, where L is the number of batches of an epoch.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.multiprocessing as multiprocessing
from mmengine.runner import BaseLoop, EpochBasedTrainLoop, IterBasedTrainLoop
from torch import Tensor

from ttl_mm.compat.torch_private import end_workers
from ttl_mm.datasets.image_list import list_digest
from ttl_mm.datasets.train_loader import is_lost_worker, train_loader, wait_for_workers_only
from ttl_mm.datasets.train_samples import Batch, Skipped
from ttl_mm.engine.state.exit_codes import Preempted
from ttl_mm.engine.state.log_history import EVERY, trim_log
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.engine.state.rng_state import get_rng_state, set_rng_state
from ttl_mm.engine.state.run_ranks import RunRanks
from ttl_mm.registry import LOOPS


class Position(NamedTuple):
    """A place in the data."""

    epoch: int = 0
    taken: int = 0  # images of the epoch's order, by all ranks
    images: str = ''  # digest of the list of images that the epoch was begun with
    window: int = 0  # in which they are shuffled, 0 for all


class ExactLoop(BaseLoop):
    """What the two loops share: batches from any position, and generators that are put back."""

    counts_epochs: bool
    dataloader: Any

    def __init__(self, runner, dataloader, *args, **kwargs) -> None:
        super().__init__(runner, dataloader, *args, **kwargs)
        self.dataloader = train_loader(self.dataloader, runner.seed)
        self.ranks = self._take_ranks(getattr(runner, 'ranks', RunRanks.of()))
        self.skipped: list[Skipped] = []  # bad images met on the way to the current batch
        self.images_per_step = 0  # of the run as it was begun, where it goes on
        self.images_per_iteration = 0  # the same of an iteration
        self.stretch = 1.0  # iterations in the place of one of the run as it was begun
        self.generation = 0  # how often other batches or ranks renumbered the iterations
        self.validated = -1  # where the last validation took place
        names = getattr(self.dataloader.dataset, 'names', None)
        self.names: Sequence[str] | None = names if isinstance(names, Sequence) else None
        self.image_list = '' if self.names is None else list_digest(self.names)
        self.position = self._begin(0)  # after the batch that is trained on
        self.waiting = False  # for data
        self._reader: Iterator[Batch] = iter(())  # what the loader yields
        self._rng: Sequence[dict] = ()  # of each rank of this process, where the run goes on
        self._waiting_rng: list[dict] = []  # of each of these ranks but the first

    def _take_ranks(self, ranks: RunRanks) -> RunRanks:
        """Let this process do the work of its ranks, where batches can be made so."""
        if ranks.parts == 1:
            return ranks
        several_optimizers = hasattr(self.runner.optim_wrapper, 'values') and 'type' not in (
            self.runner.optim_wrapper
        )
        batches = self.dataloader.batch_sampler
        if not several_optimizers and batches.take_ranks(ranks.ranks, ranks.mine):
            return ranks
        return ranks.alone()

    def resume_at(
        self, epoch: int, iteration: int, position: Position, validated: int, rng: Sequence[dict]
    ) -> None:
        """Continue after ``epoch`` whole epochs and ``iteration`` steps, at a place in the data."""
        self._epoch, self._iter, self.validated, self._rng = epoch, iteration, validated, rng
        self.position = position

    def _restore_rng(self) -> None:
        if self._rng:
            set_rng_state(self._rng[0])
            self._waiting_rng = list(self._rng[1:])
            self._rng = ()

    def rng_states(self) -> list[dict]:
        """The generators of each rank of this process, as they are between two iterations."""
        first = get_rng_state()
        return [first, *(self._waiting_rng or [first] * (self.ranks.parts - 1))]

    def _batches(self):
        """The batches of the rest of an epoch, with their numbers; the place moves along."""
        begun, batches = self.position, self.dataloader.batch_sampler
        first = len(batches) - batches.set_position(begun.epoch, begun.taken)
        for step, batch in enumerate(self._read_ahead(), 1):
            self.skipped = batch.skipped
            self.position = begun._replace(taken=batches.taken_after(step))
            yield first + step - 1, batch.data
        self.position = self._begin(begun.epoch + 1)

    def _begin(self, epoch: int) -> Position:
        """Where an epoch begins."""
        return Position(epoch, 0, self.image_list, self.dataloader.batch_sampler.window)

    def run_iter(self, *args) -> None:
        """One step, as mmengine makes it; now and then the log is cut to its newest values."""
        if self.ranks.parts == 1:
            super().run_iter(*args)  # of the loop beside this class
        else:
            self._run_parts(args[-1], args[0] if len(args) > 1 else self._iter)
        if self._iter % EVERY == 0:
            trim_log(self.runner)

    def _run_parts(self, batch: Any, index: int) -> None:
        """One step of all ranks of this process, each with its batch and generators in turn."""
        self.runner.call_hook('before_train_iter', batch_idx=index, data_batch=batch)
        states, outputs = self.rng_states(), []
        for part, rank_batch in enumerate(split_batch(batch, self.ranks.parts)):
            set_rng_state(states[part])
            model, wrapper = self.runner.model, self.runner.optim_wrapper
            inner: Any = unwrap_model(model)
            if part and hasattr(inner, 'set_progress'):
                inner.set_progress(inner.seed, inner.iteration)  # another pass of this iteration
            outputs.append(model.train_step(rank_batch, optim_wrapper=wrapper))
            states[part] = get_rng_state()
        set_rng_state(states[0])
        self._waiting_rng = states[1:]
        self.runner.call_hook(
            'after_train_iter', batch_idx=index, data_batch=batch, outputs=mean_outputs(outputs)
        )
        self._iter += 1

    def _read_ahead(self) -> Iterator[Batch]:
        """What the loader yields. If it cannot, because a worker died or the run was asked to end
        while it waited, the hooks get a last chance to save (``when_data_fail``).
        """
        batches = self._reader = iter(self.dataloader)
        wait_for_workers_only()
        while True:
            try:
                self.waiting = True
                batch = next(batches)
            except StopIteration:
                return
            except Exception as error:
                if is_lost_worker(error, self.dataloader) or isinstance(error, Preempted):
                    for worker in multiprocessing.active_children():
                        worker.kill()  # one that is stopped would never end by itself
                    self.runner.call_hook('when_data_fail', error=error)
                end_workers(self.dataloader, batches)
                raise
            finally:
                self.waiting = False
            yield batch

    def _finish(self) -> Any:
        """Let the hooks do what comes last, without workers; the trained model."""
        end_workers(self.dataloader, self._reader)
        self.runner.call_hook('after_train')
        return self.runner.model

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


def split_batch(batch: Mapping[str, Any], parts: int) -> list[dict[str, Any]]:
    """A batch in equal parts, in its order; a list of stacked views is a list in every part."""
    return [
        {key: _part(value, part, parts) for key, value in batch.items()} for part in range(parts)
    ]


def _part(value: Any, part: int, parts: int) -> Any:
    views = isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor)
    if views and value[0].ndim == 4:  # each of all images
        return [_part(view, part, parts) for view in value]
    size = len(value) // parts
    return value[part * size : (part + 1) * size]


def mean_outputs(outputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What several passes logged, as the mean of each number."""
    return {
        name: torch.stack([torch.as_tensor(some[name]).detach() for some in outputs]).mean()
        for name in outputs[0]
    }


@LOOPS.register_module()
class EpochLoop(ExactLoop, EpochBasedTrainLoop):
    """mmengine's epoch loop; a checkpoint from the middle of an epoch continues there."""

    counts_epochs = True

    def end_after(self, epochs: int) -> None:
        """Let the run have so many epochs in all, from now on."""
        self._max_epochs = epochs
        self._max_iters = epochs * len(self.dataloader)

    def run(self):
        self.runner.call_hook('before_train')
        if self.position.taken == 0:
            self._restore_rng()
            self._validate()  # a checkpoint is saved at the end of an epoch, before validation
        while self._epoch < self._max_epochs and not self.stop_training:
            self.run_epoch()
            self._validate()
        return self._finish()

    def run_epoch(self) -> None:
        """Train the rest of the current epoch."""
        self.runner.call_hook('before_train_epoch')
        self._restore_rng()
        self.runner.model.train()
        for index, batch in self._batches():
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

    def end_after(self, steps: int) -> None:
        """Let the run have so many steps in all, from now on."""
        self._max_iters = steps

    def run(self):
        self.runner.call_hook('before_train')
        self.runner.call_hook('before_train_epoch')
        self._restore_rng()
        self._validate()  # a checkpoint is saved at the end of an iteration, before validation
        while self._iter < self._max_iters and not self.stop_training:
            for _, batch in self._batches():
                self.runner.model.train()
                self.run_iter(batch)
                self._validate()
                if self._iter >= self._max_iters or self.stop_training:
                    break
        self.runner.call_hook('after_train_epoch')
        return self._finish()
