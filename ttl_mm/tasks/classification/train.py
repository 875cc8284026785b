"""Train one classifier and test it: a run that the same call continues."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ttl_mm.checkpoint.sealed import checkpoint_files
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.datasets.name_list import write_name_list
from ttl_mm.engine.runner.processes import train_in_processes
from ttl_mm.evaluation.data import evaluation_pipeline
from ttl_mm.files.plain_json import read_json
from ttl_mm.planning.train_config import write_train_config
from ttl_mm.pretraining import RunEndedError
from ttl_mm.tasks.classification.classifier import classify, write_classifier
from ttl_mm.tasks.classification.config import Training, classifier_config
from ttl_mm.tasks.classification.labels import Labeled, Split
from ttl_mm.tasks.classification.source import Source

BEST = 'best_validation_score.pth'


@dataclass(frozen=True)
class Trained:
    """A finished run: its classifier, and what that says about the test images."""

    classifier: Path
    validation: float  # score of the epoch that was kept
    epoch: int  # which it was
    predicted: np.ndarray  # (Q,) numbers of classes
    confidence: np.ndarray  # (Q,) from 0 to 1
    labels: np.ndarray  # (Q,) the truth

    @property
    def correct(self) -> np.ndarray:
        """(Q,) booleans."""
        return self.predicted == self.labels


def train_classifier(
    source: Source, data: Labeled, splits: dict[str, Split], out: Path,
    training: Training | None = None, seed: int = 0, random: bool = False,
    device: str | None = None,
) -> Trained:  # fmt: skip
    """Train, keep the best epoch by validation, and test; interrupted, the same call continues.

    Args:
        source: The backbone to start from.
        data: For its classes and its test images.
        splits: 'train' and 'val', as :func:`ttl_mm.tasks.classification.labels.draw` gives them.
        out: Folder of the run.
        training: Choices of the user.
        seed: Of everything that is random.
        random: Start from random weights: the baseline.
        device: Where to test; training takes a GPU if there is one.

    Raises:
        RunEndedError: Training was interrupted or stopped by a guard.
    """
    plan, classifier = out / 'plan', out / 'classifier.pth'
    result = out / 'result.json'
    if not result.is_file():
        config = plan / 'config.py'
        if not config.is_file():
            cfg = classifier_config(source, len(data.classes), splits, plan, training, seed, random)
            write_train_config(cfg, config, 'Planned by ttl finetune')
        if not classifier.is_file():
            if code := train_in_processes(config, out):
                raise RunEndedError(f'{out} is not finished. The same line continues it.', code)
            write_classifier(out / BEST, classifier, source, data.classes)
        _test(classifier, data, out, device)
        for path in checkpoint_files(out):  # of a finished run nobody needs them
            path.unlink()
    return _read(result, classifier, data)


def _test(classifier: Path, data: Labeled, out: Path, device: str | None) -> None:
    names = out / 'plan' / 'test.txt'
    write_name_list(names, data.test.names)

    def open_images(size: int) -> ImageFolder:
        pipeline = evaluation_pipeline(size)
        return ImageFolder(str(data.test.root), pipeline, str(names), with_label=True)

    chances, _, _ = classify(classifier, open_images, out / 'test.features', device=device)
    best = read_json(out / 'results.json')['best']
    content = {
        'validation': best['validation/score'], 'epoch': best['epoch'],
        'predicted': chances.argmax(1).tolist(),
        'confidence': [round(float(value), 6) for value in chances.max(1)],
    }  # fmt: skip
    partial = out / 'result.partial'
    partial.write_text(json.dumps(content) + '\n')
    partial.replace(out / 'result.json')
    (out / 'test.features').unlink()


def _read(result: Path, classifier: Path, data: Labeled) -> Trained:
    found = read_json(result)
    predicted, confidence = (np.array(found[name]) for name in ('predicted', 'confidence'))
    return Trained(
        classifier, found['validation'], found['epoch'], predicted, confidence, data.test.labels
    )
