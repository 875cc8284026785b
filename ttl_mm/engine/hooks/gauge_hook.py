"""Clustering and collapse gauges of the training forward passes themselves."""

from collections import defaultdict
from typing import Any

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
from ttl_mm.models import TruncatedTripletHead
from ttl_mm.registry import HOOKS

PARTS = {
    'features': 'backbone', 'projections': 'neck', 'predictions': 'head.predictor',
    'targets': 'target_neck',
}  # fmt: skip


@HOOKS.register_module()
class GaugeHook(Hook):
    """Log ``gauge/*`` once per epoch, from the features of its last batches.

    It records the forward passes of the training and adds none of its own: it draws no random
    number and touches no weight, so a run is bit-equal with and without it.

    ======================  =================================================  ======
    scalar                  of                                                 labels
    ======================  =================================================  ======
    gauge/std               online projections                                 no
    gauge/effective_rank    online projections                                 no
    gauge/class_divergence  pooled backbone features, BatchNorm in training    yes
    gauge/pr_omega_a, _b    predictions against target projections, at ranks   yes
    ======================  =================================================  ======

    Args:
        num_batches: How many batches at the end of an epoch are measured, per process.
        interval: Every how many epochs.
        ranks: (lo, hi) of the negatives to measure; those of the head by default.
    """

    priority = 'LOW'

    def __init__(
        self, num_batches: int = 16, interval: int = 1, ranks: tuple[int, int] | None = None
    ) -> None:
        if num_batches < 1 or interval < 1:
            found = f'num_batches={num_batches}, interval={interval}'
            raise UserError(f'{found}: both must be at least 1.')
        self.num_batches, self.interval, self.ranks = num_batches, interval, ranks
        self._recorder = OutputRecorder()
        self._clear()

    def _clear(self) -> None:
        self._kept: defaultdict[str, list[Tensor]] = defaultdict(list)
        self._explorer = RankExplorer()
        self._num_keys = 0

    def before_train_iter(self, runner, batch_idx: int, data_batch=None) -> None:
        """Record this iteration if it is one of the last of an epoch that is measured."""
        # counted in iterations, so that it holds in loops by epoch and by iteration
        length = len(runner.train_dataloader)
        epoch, position = divmod(runner.iter, length)
        if (epoch + 1) % self.interval == 0 and position >= length - self.num_batches:
            self._recorder.start(unwrap_model(runner.model), PARTS)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        """Keep what was recorded; log at the end of the epoch."""
        if not self._recorder.recording:
            return
        head = getattr(unwrap_model(runner.model), 'head', None)
        self._keep(self._recorder.stop(), labels_or_none(data_batch), head)
        if self._kept and (runner.iter + 1) % len(runner.train_dataloader) == 0:
            self._log(runner, head)

    def _keep(self, outputs: dict[str, list[Tensor]], labels: Tensor | None, head: Any) -> None:
        """Keep the outputs of the first view; a model without projections is not measured.

        Where a forward pass has more rows than there are images (SimCLR and SwAV pass all views at
        once, others patches), no row is known to have a label.
        """
        if not {'features', 'projections'} <= outputs.keys():
            return
        features = pooled(outputs['features'][0])[-1]
        self._kept['features'].append(features)
        self._kept['projections'].append(outputs['projections'][0].flatten(1))
        if labels is None or len(labels) != len(features):
            return
        labels = labels.to(features.device)
        self._kept['labels'].append(labels)
        keys = outputs.get('targets', [])
        if isinstance(head, TruncatedTripletHead):
            if head.both_views:
                return  # its ranks are those among the negatives of two views
            keys = keys or outputs['projections']  # without a target network
        if len(keys) > 1 and outputs.get('predictions'):
            gather = getattr(head, 'gather_negatives', False)
            self._explore(outputs['predictions'][0], keys[1], labels, gather)

    def _explore(self, query: Tensor, key: Tensor, labels: Tensor, gather: bool) -> None:
        """Rank the negatives of view 1 among the target projections of view 2, as the head does."""
        offset = 0
        if gather:
            offset = get_rank() * len(key)
            key, labels = torch.cat(all_gather(key)), torch.cat(all_gather(labels))
        if len(key) > 1 and self._num_keys in (0, len(key)):  # a shorter last batch has other ranks
            self._num_keys = len(key)
            self._explorer.add(query, key, labels, offset)

    def _log(self, runner, head: Any) -> None:
        """Gather over the processes, log and forget."""
        kept = {k: torch.cat(all_gather(torch.cat(rows))) for k, rows in self._kept.items()}
        features, projections, labels = kept['features'], kept['projections'], kept.get('labels')
        gauges = {'gauge/std': feature_std(projections)}
        gauges['gauge/effective_rank'] = effective_rank(projections)
        if labels is not None and len(labels) == len(features) and len(labels.unique()) > 1:
            gauges['gauge/class_divergence'] = class_divergence(features, labels)
        window = getattr(head, 'window', lambda num_negatives: None)
        if self._num_keys and (ranks := self.ranks or window(self._num_keys - 1)):
            of_all = RankExplorer()
            of_all.merge(all_gather_object(self._explorer))
            frequency = of_all.frequency(ranks)
            gauges['gauge/pr_omega_a'] = frequency.omega_given_a
            gauges['gauge/pr_omega_b'] = frequency.omega_given_b
        self._clear()
        if is_main_process():
            runner.logger.info('  '.join(f'{name}: {value:.4g}' for name, value in gauges.items()))
        step, threads = runner.iter + 1, torch.get_num_threads()  # for core hours in a report
        where = {'epoch': step // len(runner.train_dataloader), 'iter': step, 'threads': threads}
        runner.visualizer.add_scalars({**gauges, **where}, step=step)


def labels_or_none(data_batch: dict | None) -> Tensor | None:
    """(N,) true classes of a batch, or None if an image has none."""
    samples = (data_batch or {}).get('data_samples') or []
    labels = [sample.gt_label for sample in samples if 'gt_label' in sample]
    # mmselfsup's samples hold a LabelData, mmpretrain's the tensor itself
    labels = [getattr(label, 'value', label) for label in labels]
    return torch.cat(labels) if labels and len(labels) == len(samples) else None
