"""Clustering and collapse gauges of the training forward passes themselves."""

import torch
from mmengine.dist import all_gather, all_gather_object, get_rank, is_main_process
from mmengine.hooks import Hook
from torch import Tensor

from ttl_mm.engine.hooks.output_recorder import OutputRecorder
from ttl_mm.engine.state.model import unwrap_model
from ttl_mm.errors import UserError
from ttl_mm.evaluation.forward import pooled
from ttl_mm.gauges.clustering import RankExplorer, class_divergence
from ttl_mm.gauges.collapse import effective_rank, feature_std
from ttl_mm.registry import HOOKS


@HOOKS.register_module()
class GaugeHook(Hook):
    """Log ``gauge/*`` once per epoch, from the features of its last batches.

    It records the forward passes of the training and adds none of its own: it draws no random
    number and touches no weight, so a run is bit-equal with and without it.

    ========================  ============================================  ======
    scalar                    of                                            labels
    ========================  ============================================  ======
    gauge/std                 online projections                            no
    gauge/effective_rank      online projections                            no
    gauge/class_divergence    pooled backbone features, both networks' BN   yes
                              in training mode
    gauge/pr_omega_a          predictions against target projections,       yes
    gauge/pr_omega_b          at the ranks of the head
    ========================  ============================================  ======

    Args:
        num_batches: How many batches at the end of an epoch are looked at, per process.
        interval: Every how many epochs.
        ranks: (lo, hi) whose negatives are judged; those of the head by default.
    """

    priority = 'LOW'

    def __init__(
        self, num_batches: int = 16, interval: int = 1, ranks: tuple[int, int] | None = None
    ):
        if num_batches < 1 or interval < 1:
            raise UserError(
                f'num_batches={num_batches}, interval={interval}: both must be at least 1.'
            )
        self.num_batches = num_batches
        self.interval = interval
        self.ranks = ranks

    def before_train(self, runner) -> None:
        """Find the network below a distributed wrapper."""
        self.model = unwrap_model(runner.model)
        self._recorder = OutputRecorder()
        self._clear()

    def before_train_iter(self, runner, batch_idx: int, data_batch=None) -> None:
        """Record this iteration if it is one of the last of an epoch that is measured."""
        # counted in iterations, so that it holds in loops by epoch and by iteration
        length = len(runner.train_dataloader)
        epoch, position = divmod(runner.iter, length)
        if (epoch + 1) % self.interval or position < length - self.num_batches:
            return
        head = getattr(self.model, 'head', None)
        self._recorder.start(
            {
                'features': getattr(self.model, 'backbone', None),
                'projections': getattr(self.model, 'neck', None),
                'predictions': getattr(head, 'predictor', None),
                'targets': getattr(self.model, 'target_neck', None),
            }
        )

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        """Keep what was recorded; log at the end of the epoch."""
        if not self._recorder.recording:
            return
        self._keep(self._recorder.stop(), labels_or_none(data_batch))
        if self._features and (runner.iter + 1) % len(runner.train_dataloader) == 0:
            self._log(runner)

    def _keep(self, outputs: dict[str, list[Tensor]], labels: Tensor | None) -> None:
        """Keep the outputs of the first view; a model without projections is not measured.

        Where a forward pass has more rows than there are images (SimCLR and SwAV pass all views at
        once, others patches), no row is known to have a label.
        """
        if not {'features', 'projections'} <= outputs.keys():
            return
        self._features.append(pooled(outputs['features'][0])[-1])
        self._projections.append(outputs['projections'][0].flatten(1))
        if labels is None or len(labels) != len(self._features[-1]):
            return
        labels = labels.to(self._features[-1].device)
        self._labels.append(labels)
        if len(outputs.get('targets', ())) > 1 and outputs.get('predictions'):
            self._explore(outputs['predictions'][0], outputs['targets'][1], labels)

    def _explore(self, query: Tensor, key: Tensor, labels: Tensor) -> None:
        """Rank the negatives of view 1 among the target projections of view 2, as the head does."""
        offset = 0
        if getattr(self.model.head, 'gather_negatives', False):
            offset = get_rank() * len(key)
            key, labels = torch.cat(all_gather(key)), torch.cat(all_gather(labels))
        if len(key) > 1 and (len(self._explorer) == 0 or self._num_keys == len(key)):
            self._num_keys = len(key)  # a shorter last batch has other ranks
            self._explorer.add(query, key, labels, offset)

    def _log(self, runner) -> None:
        """Gather over the processes, log and forget."""
        features, projections = _gathered(self._features), _gathered(self._projections)
        gauges = {
            'gauge/std': feature_std(projections),
            'gauge/effective_rank': effective_rank(projections),
        }
        if len(self._labels) == len(self._features):
            labels = _gathered(self._labels)
            if len(labels.unique()) > 1:
                gauges['gauge/class_divergence'] = class_divergence(features, labels)
        if len(self._explorer) and (ranks := self._head_ranks(self._num_keys - 1)):
            of_all = RankExplorer()
            of_all.merge(all_gather_object(self._explorer))
            frequency = of_all.frequency(ranks)
            gauges['gauge/pr_omega_a'] = frequency.omega_given_a
            gauges['gauge/pr_omega_b'] = frequency.omega_given_b
        self._clear()
        if is_main_process():
            runner.logger.info('  '.join(f'{name}: {value:.4g}' for name, value in gauges.items()))
        step = runner.iter + 1
        where = {'epoch': step // len(runner.train_dataloader), 'iter': step}
        where['threads'] = torch.get_num_threads()  # a report counts core hours with it
        runner.visualizer.add_scalars({**gauges, **where}, step=step)

    def _head_ranks(self, num_negatives: int) -> tuple[int, int] | None:
        """The ranks that are judged; None where the head has no fixed ones."""
        window = getattr(self.model.head, 'window', None)
        return self.ranks or (window(num_negatives) if window else None)

    def _clear(self) -> None:
        self._features: list[Tensor] = []
        self._projections: list[Tensor] = []
        self._labels: list[Tensor] = []
        self._explorer = RankExplorer()
        self._num_keys = 0


def labels_or_none(data_batch: dict | None) -> Tensor | None:
    """(N,) true classes of a batch, or None if an image has none."""
    samples = (data_batch or {}).get('data_samples') or []
    labels = [sample.gt_label for sample in samples if 'gt_label' in sample]
    # mmselfsup's samples hold a LabelData, mmpretrain's the tensor itself
    labels = [getattr(label, 'value', label) for label in labels]
    return torch.cat(labels) if labels and len(labels) == len(samples) else None


def _gathered(batches: list[Tensor]) -> Tensor:
    return torch.cat(all_gather(torch.cat(batches)))
