"""A classifier as a task: its config, its file and its test."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config

from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.datasets.name_list import write_name_list
from ttl_mm.evaluation.data import evaluation_pipeline
from ttl_mm.files.plain_json import read_json
from ttl_mm.finetuning.job import Run, Task
from ttl_mm.tasks.classification.classifier import classify, write_classifier
from ttl_mm.tasks.classification.config import Training, classifier_config
from ttl_mm.tasks.classification.labels import Labeled, Split
from ttl_mm.tasks.classification.source import Source

BEST = 'best_validation_score.pth'


@dataclass(frozen=True)
class ClassifierTask(Task):
    """Train on some images, keep the best epoch by others, test on a third part."""

    source: Source  # the backbone to start from
    data: Labeled
    splits: Callable[[int], dict[str, Split]]  # 'train' and 'val' for a seed
    training: Training
    device: str | None = None  # to test on; training takes a GPU if there is one

    command = 'ttl finetune'
    use = 'ttl predict IMAGES'
    product = 'classifier'

    def config(self, folder: Path, seed: int, random: bool) -> Config:
        classes, splits = len(self.data.classes), self.splits(seed)
        return classifier_config(self.source, classes, splits, folder, self.training, seed, random)

    def checkpoint(self, folder: Path) -> Path:
        """That of the best epoch."""
        return folder / BEST

    def write(self, checkpoint: Path, path: Path) -> None:
        write_classifier(checkpoint, path, self.source, self.data.classes)

    def test(self, path: Path, folder: Path) -> dict[str, Any]:
        """What the classifier says about the test images, and which epoch it is of."""
        test, names = self.data.test, folder / 'plan' / 'test.txt'
        write_name_list(names, test.names)

        def open_images(size: int) -> ImageFolder:
            pipeline = evaluation_pipeline(size)
            return ImageFolder(str(test.root), pipeline, str(names), with_label=True)

        features = folder / 'test.features'
        chances, _, _ = classify(path, open_images, features, device=self.device)
        features.unlink()
        best = read_json(folder / 'results.json')['best']
        return {
            'validation': best['validation/score'], 'epoch': best['epoch'],
            'predicted': chances.argmax(1).tolist(),
            'confidence': [round(float(value), 6) for value in chances.max(1)],
        }  # fmt: skip


@dataclass(frozen=True)
class Tested:
    """What the classifier of a run says about the test images."""

    run: Run
    labels: np.ndarray  # (Q,) the truth, numbers of classes

    @property
    def validation(self) -> float:
        """Score of the epoch that was kept."""
        return self.run.result['validation']

    @property
    def predicted(self) -> np.ndarray:
        """(Q,) numbers of classes."""
        return np.array(self.run.result['predicted'])

    @property
    def confidence(self) -> np.ndarray:
        """(Q,) from 0 to 1."""
        return np.array(self.run.result['confidence'])

    @property
    def correct(self) -> np.ndarray:
        """(Q,) booleans."""
        return self.predicted == self.labels
