"""Which epoch of a classifier is the best."""

from collections.abc import Sequence

import torch
from mmengine.evaluator import BaseMetric

from ttl_mm.registry import METRICS


@METRICS.register_module()
class ValidationScore(BaseMetric):
    """Top-1 in percent; between epochs with equally many correct images the surer one is better.

    A small validation set has few values of top-1, and many epochs share the best of them. The
    score adds less than one image to the correct ones: the geometric mean of the probabilities of
    the true classes.
    """

    default_prefix = 'validation'

    def process(self, data_batch, data_samples: Sequence[dict]) -> None:
        """Keep whether a sample is correct, and the probability of its class."""
        for sample in data_samples:
            scores, label = sample['pred_score'].float().cpu(), int(sample['gt_label'])
            self.results.append((int(scores.argmax()) == label, float(scores[label])))

    def compute_metrics(self, results: list[tuple[bool, float]]) -> dict[str, float]:
        """The score, from 0 to 100 and at most one image."""
        correct, probabilities = (torch.tensor(column) for column in zip(*results))
        sure = probabilities.double().clamp(min=1e-12).log().mean().exp()
        return {'score': float(100 * (correct.sum() + sure) / len(results))}
