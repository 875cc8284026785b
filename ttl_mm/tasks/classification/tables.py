"""Predictions as csv: path, label, confidence and, where it is known, the true label."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path


def write_predictions(
    path: Path, names: Iterable[str], labels: Iterable[str], confidence: Iterable[float],
    truth: Sequence[str] | None = None,
) -> None:  # fmt: skip
    """Write a row for every image; the file appears complete or not at all."""
    columns = [names, labels, (f'{value:.4f}' for value in confidence)]
    header = ['path', 'label', 'confidence']
    if truth is not None:
        columns, header = [*columns, truth], [*header, 'true']
    partial = path.with_name(f'{path.name}.partial')
    with partial.open('w', newline='', encoding='utf-8', errors='surrogateescape') as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(zip(*columns))
    partial.replace(path)
