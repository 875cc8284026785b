"""What ``ttl plan --try`` gains: kNN accuracy of every setting that it tries, measured with labels.

    OMP_NUM_THREADS=1 python projects/judge_validation/bench_try.py --data DIR [--minutes 5]

The network of the efficiency study at 32 px, on ``cifar10_mini`` and ``imagenette_mini`` below DIR.
``--try`` itself sees no labels; here each setting is classified after it was judged. Writes
``try.json``, which ``validate.py publish`` shows.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import ttl_mm.engine  # isort: skip  # noqa: F401
import numpy as np
from mmengine.registry import init_default_scope

from ttl_mm.checkpoint.sealed import newest_valid, read_sealed
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.datasets.part import Part
from ttl_mm.evaluation.data import evaluation_pipeline
from ttl_mm.evaluation.probe import KNN, Probe
from ttl_mm.evaluation.view_features import spread_indices
from ttl_mm.planning import choose, make_plan, read_recipe, settings_to_try, tried, write_config
from ttl_mm.registry import DATASETS, MODELS

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / 'projects/efficiency_study/configs/ttl_ranks2-10.py'
OUT = Path(__file__).resolve().parent / 'try.json'
TESTS = {'cifar10_mini': 'test', 'imagenette_mini': 'val'}
EPOCHS, LABELED = 10, 1000  # images that kNN learns from, and at most as many to classify


def accuracy(work: Path, config, train: Path, test: Path) -> float:
    """KNN top-1 of a finished run."""
    model = MODELS.build(config.model)
    model.load_state_dict(read_sealed(newest_valid(work)[0])['state_dict'])
    labeled = {
        'type': 'ttl_mm.ImageFolder',
        'with_label': True,
        'pipeline': evaluation_pipeline(32),
    }
    parts = [DATASETS.build({**labeled, 'data_root': str(folder)}) for folder in (train, test)]
    few = Part(parts[1], np.array(spread_indices(LABELED, len(parts[1]))))
    return Probe(parts[0], few, max_train=LABELED).measure(model)[KNN]


def gain_on(data: Path, name: str, seconds: float) -> list[dict]:
    """Every setting on one data set: what is measured without labels, and with them."""
    train, test = data / name / 'train', data / name / TESTS[name]
    plan = make_plan(len(ImageFolder(str(train))), 10, 1, None, read_recipe(RECIPE), EPOCHS)
    known, measure_setting = {}, tried.measure_setting

    def measure_with_labels(work: Path, config) -> tuple[int, np.ndarray]:
        found = measure_setting(work, config)
        known[len(known)] = accuracy(work, config, train, test)
        return found

    tried.measure_setting = measure_with_labels
    try:
        found = tried.try_settings(
            settings_to_try(plan, RECIPE),
            lambda setting, path: write_config(
                setting.plan, RECIPE, path, str(train), scale=setting.scale
            ),
            seconds,
        )
    finally:
        tried.measure_setting = measure_setting
    best = choose(found)
    return [
        {
            'setting': t.setting.name, 'steps': t.steps, 'kept': t.kept, 'error': t.error,
            'knn': known[i], 'chosen': t is best,
        }
        for i, t in enumerate(found)
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--data', type=Path, default=Path('data'))
    parser.add_argument('--minutes', type=float, default=5.0)
    parser.add_argument('--only', choices=TESTS)
    args = parser.parse_args()
    init_default_scope('mmpretrain')
    content = json.loads(OUT.read_text()) if OUT.is_file() else {}
    for name in [args.only] if args.only else TESTS:
        content[name] = gain_on(args.data, name, 60 * args.minutes)
        OUT.write_text(json.dumps(content, indent=1) + '\n')
        for row in content[name]:
            print(name, row, flush=True)


if __name__ == '__main__':
    main()
