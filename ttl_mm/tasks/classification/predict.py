"""What ``ttl predict`` does: labels with confidence for images, as csv."""

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ttl_mm.evaluation.feature_file import NO_IMAGE
from ttl_mm.explore.embedding import AnyImages
from ttl_mm.finetuning.use import say_left_out
from ttl_mm.outputs import claim_file
from ttl_mm.planning.image_sources import find_images
from ttl_mm.tasks.classification.classifier import classify
from ttl_mm.tasks.classification.tables import write_predictions


def predict(
    images: Sequence[str | Path], weights: str, out: str | Path = 'predictions.csv',
    size: int | None = None, batch_size: int = 128, workers: int = 2, device: str | None = None,
    overwrite: bool = False, say: Callable[[str], None] = print,
) -> Path:  # fmt: skip
    """Classify images and write path, label and confidence of each.

    Args:
        images: Folders of any depth, archives, or lists of files.
        weights: ``classifier.pth`` of ``ttl finetune``.
        out: The csv file.
        size: Edge of the images; that of training by default.
        batch_size: Images at once.
        workers: Processes that load images.
        device: Where to compute.
        overwrite: Whether an existing file may be replaced.
        say: Receives the lines for the user.

    Raises:
        UserError: The weights are no classifier, or there are no images.
    """
    path, found = claim_file(out, overwrite), find_images(images)
    with tempfile.TemporaryDirectory(prefix='ttl_predict_') as folder:
        chances, features, layer = classify(
            weights, lambda edge: AnyImages(found, edge), Path(folder) / 'images.features', size,
            device=device, batch_size=batch_size, num_workers=workers,
        )  # fmt: skip
        good = np.asarray(features.labels) != NO_IMAGE
        names = list(features.paths)
    labels = [layer.classes[i] for i in chances.argmax(1)]
    kept = np.flatnonzero(good)
    confidence = chances.max(1)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [names[i] for i in kept], [labels[i] for i in kept], confidence[kept]
    write_predictions(path, *rows)
    say_left_out([name for name, is_good in zip(names, good) if not is_good], say)
    counts = Counter(rows[1]).most_common()
    say('\n'.join(f'{count:8,}  {label}' for label, count in counts))
    say(str(path))
    return path
