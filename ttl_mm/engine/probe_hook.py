"""How good are the features by now? An online probe while pre-training."""

import torch
from mmengine.dataset import default_collate
from mmengine.dist import all_gather, all_reduce, get_dist_info, is_main_process
from mmengine.hooks import Hook
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from ttl_mm.engine.rng_state import get_rng_state, set_rng_state
from ttl_mm.engine.train_state import bare
from ttl_mm.errors import UserError
from ttl_mm.evaluation.forward import evaluating, extract_batches
from ttl_mm.evaluation.knn import knn_classify
from ttl_mm.evaluation.linear import linear_classify
from ttl_mm.registry import DATASETS, HOOKS


@HOOKS.register_module()
class ProbeHook(Hook):
    """Log the top-1 accuracy, in percent, of classifiers on the frozen online backbone.

    ``probe/knn_top1``: weighted kNN on the pooled last stage. ``probe/linear_top1``, on request:
    logistic regression on the same features. Both are online figures on images without
    augmentation: they show progress, and are not those of the linear protocol.

    Measured before the first iteration, then every ``interval`` epochs and after the last. The
    training does not notice: the random generators, the modes of all modules and the statistics of
    BatchNorm are afterwards what they were, so the weights are bit-equal with and without.

    Args:
        train: config of a labelled dataset, with a pipeline that ends in PackInputs.
        test: the same, of the images to classify.
        interval: every how many epochs.
        k: neighbours of the vote.
        temperature: the vote of a neighbour is exp(cosine / temperature).
        linear: whether to fit a linear probe too.
        linear_interval: every how many epochs, which is as often as kNN by default; a fit can take
            longer than an epoch on few images.
        max_train: use at most so many training images, evenly spread over the dataset.
        batch_size: images per forward pass.
        num_workers: processes that load images.
    """

    priority = 75  # after the target's update and the gauges' ears (70), before the checkpoint (90)

    def __init__(
        self,
        train: dict,
        test: dict,
        interval: int = 1,
        k: int = 20,
        temperature: float = 0.07,
        linear: bool = False,
        linear_interval: int | None = None,
        max_train: int | None = None,
        batch_size: int = 256,
        num_workers: int = 0,
    ) -> None:
        if interval < 1 or batch_size < 1:
            raise UserError(f'interval={interval}, batch_size={batch_size}: both are at least 1.')
        self.configs = {'train': train, 'test': test}
        self.interval = interval
        self.k, self.temperature, self.linear = k, temperature, linear
        self.linear_interval = linear_interval or interval
        self.max_train = max_train
        self.loader = {'batch_size': batch_size, 'num_workers': num_workers}
        self.datasets: dict = {}

    def before_train(self, runner) -> None:
        """Build the datasets; measure where a run starts, and not where it is resumed."""
        rng = get_rng_state()
        for name, config in self.configs.items():
            self.datasets[name] = DATASETS.build(config) if isinstance(config, dict) else config
        set_rng_state(rng)
        if runner.iter == 0:
            self._probe(runner, 0, self.linear)

    def after_train_iter(self, runner, batch_idx: int, data_batch=None, outputs=None) -> None:
        """Measure at the end of an epoch; counted in iterations, so that any loop will do."""
        done, length = runner.iter + 1, len(runner.train_dataloader)
        ends = done == runner.max_iters
        linear = self.linear and (ends or done % (self.linear_interval * length) == 0)
        if ends or linear or done % (self.interval * length) == 0:
            self._probe(runner, done, linear)

    def _probe(self, runner, step: int, linear: bool) -> None:
        rng = get_rng_state()
        try:
            scores = self.measure(bare(runner.model), linear)
        finally:
            set_rng_state(rng)
        if step:  # for CheckpointHook(save_best=...), which never saves a start
            runner.message_hub.update_scalars(scores)
        if is_main_process():
            runner.logger.info('  '.join(f'{name}: {value:.2f}' for name, value in scores.items()))
        epoch = step // len(runner.train_dataloader)
        runner.visualizer.add_scalars({**scores, 'epoch': epoch, 'iter': step}, step=step)

    def measure(self, model, linear: bool | None = None) -> dict[str, float]:
        """Top-1 accuracies in percent; the processes share the work and agree on the result."""
        train, train_labels = self.features(model, 'train')
        test, test_labels = self.features(model, 'test', gather=False)
        predicted = self.classify(train, train_labels, test, linear)
        correct = torch.stack([(labels == test_labels).sum() for labels in predicted.values()])
        all_reduce(correct)
        accuracies = 100 * correct.double() / len(self.datasets['test'])
        return dict(zip(predicted, accuracies.tolist()))

    def classify(
        self, train: Tensor, train_labels: Tensor, test: Tensor, linear: bool | None = None
    ) -> dict[str, Tensor]:
        """Labels that each classifier gives to the test rows, (Q,), by the name of its figure."""
        predicted = {
            'probe/knn_top1': knn_classify(train, train_labels, test, self.k, self.temperature)
        }
        if self.linear if linear is None else linear:
            predicted['probe/linear_top1'] = linear_classify(train, train_labels, test)
        return predicted

    def features(self, model, name: str, gather: bool = True) -> tuple[Tensor, Tensor]:
        """Features (n, C) and labels (n,): of the whole set, or of this process's share."""
        dataset = self.datasets[name]
        count = len(dataset)
        if name == 'train' and self.max_train is not None and self.max_train < count:
            chosen = [i * count // self.max_train for i in range(self.max_train)]
        else:
            chosen = list(range(count))
        rank, world = get_dist_info()
        share = Subset(dataset, chosen[rank::world])
        batches = DataLoader(share, collate_fn=default_collate, **self.loader)
        with evaluating(model):
            found = list(extract_batches(model.backbone, model.data_preprocessor, batches))
        features = torch.cat([stages[-1] for stages, _ in found])
        labels = torch.cat([labels for _, labels in found]).to(features.device)
        if gather and world > 1:
            return _interleaved(features, len(chosen)), _interleaved(labels, len(chosen))
        return features, labels


def _interleaved(rows: Tensor, total: int) -> Tensor:
    """Put the shares ``[rank::world]`` of all processes back in order."""
    world = get_dist_info()[1]
    missing = -(-total // world) - len(rows)  # 0 or 1
    rows = torch.cat([rows, rows[:missing]])
    return torch.stack(all_gather(rows), dim=1).flatten(0, 1)[:total]
