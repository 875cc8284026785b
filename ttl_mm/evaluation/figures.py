"""Figures with their protocol: what was measured, how, on what, with which weights."""

import json
import os
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np

from ttl_mm.errors import UserError, counted
from ttl_mm.evaluation.data import check_classes
from ttl_mm.evaluation.feature_file import Features
from ttl_mm.evaluation.features import versions
from ttl_mm.evaluation.knn import knn_sweep
from ttl_mm.evaluation.linear import linear_classify
from ttl_mm.evaluation.lowshot import low_shot
from ttl_mm.files.plain_json import read_json

KS = (10, 20, 100, 200)
TEMPERATURE = 0.07
# what must be the same for two files to be of one model, and its name in a message
_OF_THE_MODEL = {'weights': 'weights', 'stage': 'stages', 'crop': 'sizes of the images',
                 'normalization': 'normalizations of the images'}  # fmt: skip


def check_pair(train: Features, test: Features) -> None:
    """Both splits are of one model and have the same classes, each of them at least once."""
    for key, name in _OF_THE_MODEL.items():
        if train.about.get(key) != test.about.get(key):
            raise UserError(
                f'the training and the test features do not belong together: their {name} differ '
                f'({_short(train.about.get(key))} and {_short(test.about.get(key))}); extract '
                'both with the same checkpoint and settings.'
            )
    present = {
        name: tuple(split.classes[label] for label in np.unique(split.labels))
        for name, split in (('train', train), ('test', test))
    }
    check_classes(present, 'the features')
    if train.classes != test.classes:
        raise UserError('the training and the test features number their classes differently.')


def _short(value) -> str:
    return value[:12] if isinstance(value, str) and len(value) > 40 else str(value)


def evaluate_features(
    train: Features, test: Features, protocols: Sequence[str], ks: Sequence[int] | None = None,
    temperatures: Sequence[float] | None = None, device=None,
) -> tuple[list[dict], dict[str, np.ndarray]]:  # fmt: skip
    """Measure by every protocol asked for.

    Returns:
        The figures, each a dict with ``protocol``, ``metric``, ``value`` and all it rests on; and
        the predictions of each classifier by its description.
    """
    check_pair(train, test)
    ks, temperatures = ks or KS, temperatures or (TEMPERATURE,)
    data = train.features, train.labels, test.features
    found: list[dict] = []
    predictions: dict[str, np.ndarray] = {}

    def add(name: str, settings: dict, accuracy: float) -> None:
        value = round(float(accuracy), 4)
        found.append({'protocol': name, **settings, 'metric': 'top-1 (%)', 'value': value})

    def add_classifier(name: str, settings: dict, predicted: np.ndarray) -> None:
        add(name, settings, 100 * np.mean(predicted == test.labels))
        predictions[describe(found[-1])] = predicted

    if 'knn' in protocols:
        possible = [k for k in ks if k <= len(train.labels)]
        if not possible:
            raise UserError(
                f'k is {min(ks)}, the training set has {counted(len(train.labels), "image")}.'
            )
        sweep = knn_sweep(*data, possible, temperatures, device)
        for (k, t), predicted in sweep.items():
            add_classifier('weighted kNN, cosine', {'k': k, 'temperature': t}, predicted)
    if 'linear' in protocols:
        predicted = linear_classify(*data, device=device)
        settings: dict = {'features': 'center crops', 'penalty': 'none', 'solver': 'L-BFGS'}
        add_classifier('logistic regression on frozen features', settings, predicted)
    if 'lowshot' in protocols:
        for shots, values in low_shot(*data, test.labels).items():
            settings = {'shots': shots, 'draws': len(values), 'cost': 1.0}
            add('low-shot linear SVM on frozen features', settings, values.mean())
            found[-1]['spread'] = round(float(values.std(ddof=1)), 4)  # over the draws
    basis = origin(train, test)
    return [{**figure, **basis} for figure in found], predictions


def origin(train: Features, test: Features) -> dict:
    """What a figure rests on: checkpoint, data and versions."""
    about = train.about
    known = ('checkpoint', 'checkpoint_sha256', 'stage', 'crop', 'split')
    return {
        **{key: about[key] for key in known if key in about},
        'weights_sha256': about['weights'],
        'train': {'images': len(train.labels), 'fingerprint': about['data']},
        'test': {'images': len(test.labels), 'fingerprint': test.about['data']},
        'classes': len(train.classes),
        'extracted_with': about['versions'],
        'measured_with': {**versions(), 'scikit-learn': version('scikit-learn')},
    }


def describe(figure: dict) -> str:
    """The protocol and its settings in words."""
    settings = [f'{key} {figure[key]}' for key in ('k', 'temperature', 'shots') if key in figure]
    return ', '.join([figure['protocol'], *settings])


def table(figures: Sequence[dict]) -> str:
    """The figures as lines of text."""
    rows = [('protocol', 'top-1 (%)')]
    for figure in figures:
        spread = f' ± {figure["spread"]:.2f}' if 'spread' in figure else ''
        rows.append((describe(figure), f'{figure["value"]:.2f}{spread}'))
    width = max(len(protocol) for protocol, _ in rows)
    return '\n'.join(f'{protocol:{width}}  {value}' for protocol, value in rows)


def other_figures(path: Path, figures: Sequence[dict]) -> list[dict]:
    """Figures in a file that other protocols measured on the same features as ``figures``."""
    if not path.is_file() or not figures:
        return []
    try:
        before = read_json(path, allow_nan=True)
        if not isinstance(before, list) or not all(isinstance(old, dict) for old in before):
            raise ValueError('it is no list of figures')
    except (OSError, ValueError) as error:
        raise UserError(f'{path} cannot be completed ({error}): remove it.') from error
    basis = ('weights_sha256', 'stage', 'crop', 'train', 'test')
    measured = {describe(figure) for figure in figures}
    return [
        old
        for old in before
        if all(old.get(key) == figures[0].get(key) for key in basis)
        and describe(old) not in measured
    ]


def write_json(figures: Sequence[dict], path: str | Path) -> None:
    """Write the figures; a file is there whole or not at all."""
    partial = Path(path).with_name(Path(path).name + '.partial')
    partial.write_text(json.dumps(list(figures), indent=2, ensure_ascii=False) + '\n')
    os.replace(partial, path)
