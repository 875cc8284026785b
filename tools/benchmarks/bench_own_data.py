"""Does what follows pre-training work on real images? Three answers, on a CPU.

    python tools/benchmarks/bench_own_data.py overfit COCO_FOLDER
    python tools/benchmarks/bench_own_data.py pretrain IMAGENETTE/train
    python tools/benchmarks/bench_own_data.py voc VOCDEVKIT --weights BACKBONE
    python tools/benchmarks/bench_own_data.py labels IMAGENETTE --weights BACKBONE

``overfit``: a detector with FPN learns 8 images of COCO by heart; the exit code is 1 unless box
AP50 on the same images is at least 0.8. ``pretrain``: a narrow ResNet-18 learns from photos without
labels; its last checkpoint is BACKBONE. ``voc``: a detector for three classes against the same from
random weights, two seeds each, with intervals over the test images; the exit code is 1 unless it is
ahead in box AP50. ``labels``: ``ttl finetune`` with 5, 20 and 100 images of every class, five seeds
each.

Detectors start from the demo's backbone, a narrow ResNet-18 too, unless BACKBONE is given. A part
that was interrupted is continued by the same line, and a finished one is not computed again.
"""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
os.environ.setdefault('OMP_WAIT_POLICY', 'PASSIVE')
DEMO = 'ttl_mm://ttl_r18_digits'
GOAL = 0.8
RESAMPLES = 500  # of the images, for an interval


def progress(text: str) -> None:
    """What is no figure goes where `tools/figures.py` does not read."""
    print(text, file=sys.stderr, flush=True)


def overfit(args: argparse.Namespace) -> int:
    """Learn 8 images by heart."""
    import ttl_mm.registry  # noqa: F401  isort: skip
    from tools.benchmarks.bench_detection import subset
    from ttl_mm.tasks.detection.train_job import PRETRAINED, train_detector

    data = subset(args.data, args.out / 'coco', count=8)
    job = train_detector(
        data, args.weights, args.out / 'overfit', 'faster-rcnn-fpn', epochs=args.epochs or 350,
        size=args.size, rate=args.rate or 0.2, workers=0, baseline=False,
        say=progress,
    )  # fmt: skip
    found = job.figures[PRETRAINED]['COCO boxes']['AP50']
    print(f'box AP50 on the 8 images: {found:.3f} (goal: {GOAL})')
    return 0 if found >= GOAL else 1


def pretrain(args: argparse.Namespace) -> int:
    """A quarter as wide as usual, with the loss of `ttl train` and with Muon."""
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.engine.runner.processes import train_in_processes
    from ttl_mm.planning.train_config import read_train_recipe, write_train_config

    view = {'size': args.size, 'area': (0.3, 1.0), 'num': 2}
    config = args.out / 'plan' / 'config.py'
    if not config.is_file():
        cfg = read_train_recipe()
        cfg.model.backbone.update(stem_channels=args.channels, base_channels=args.channels)
        cfg.model.neck.in_channels = 8 * args.channels
        cfg.optim_wrapper.optimizer = {
            'type': 'ttl_mm.Muon', 'lr': 0.3, 'momentum': 0.9, 'weight_decay': 5e-4,
            'matrix_rate': 0.3,
        }  # fmt: skip
        loader = cfg.train_dataloader
        loader.update(num_workers=0, persistent_workers=False)
        loader.dataset.data_root = str(args.data.resolve())
        loader.dataset.pipeline[0].views = [view]
        epochs = args.epochs or 20
        cfg.train_cfg.max_epochs = epochs
        for part, ends in zip(cfg.param_scheduler, (2, epochs)):
            part.end = ends
        cfg.param_scheduler[1].T_max = epochs
        cfg.default_hooks.judge = cfg.default_hooks.gauges = None
        write_train_config(cfg, config, 'Planned by bench_own_data.py')
    return train_in_processes(config, args.out)


def voc(args: argparse.Namespace) -> int:
    """Three classes, pre-trained against random."""
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.finetuning.job import PRETRAINED, RANDOM
    from ttl_mm.tasks.detection.read_data import read_data
    from ttl_mm.tasks.detection.train_job import train_detector

    folders = [args.out / f'voc_seed{seed}' for seed in range(args.seeds)]
    for seed, folder in enumerate(folders):
        train_detector(
            args.data, args.weights, folder, 'faster-rcnn-fpn', args.classes, seed=seed,
            epochs=args.epochs or 40, size=args.size, rate=args.rate or 0.2, workers=0,
            say=progress,
        )  # fmt: skip
    boxes = read_data(args.data, args.classes, progress)
    ours, theirs = (
        [said(folder / f'runs/{start}_seed{seed}', boxes) for seed, folder in enumerate(folders)]
        for start in (PRETRAINED, RANDOM)
    )
    print('| boxes, in % | pre-trained | random | difference |\n|---|---|---|---|')
    for name in ('AP', 'AP50'):
        found = compared(ours, theirs, boxes.classes, f'coco101_{name}')
        cells = (f'{v.mean:.1f} ({v.low:.1f} to {v.high:.1f})' for v in found)
        print(f'| {name} | {" | ".join(cells)} |')
    return 0 if found[-1].mean > 0 else 1


def said(run: Path, boxes) -> list:
    """What a finished run found in the test images, beside the truth."""
    from ttl_mm.files.plain_json import read_json
    from ttl_mm.tasks.detection.ap_tables import image_results
    from ttl_mm.tasks.detection.detector import Found

    entries = read_json(run / 'detections.json')['annotations']
    found = []
    for number in range(1, len(boxes.val) + 1):
        mine = [entry for entry in entries if entry['image_id'] == number]
        corners = np.array([entry['bbox'] for entry in mine]).reshape(-1, 4)
        corners[:, 2:] += corners[:, :2]
        scores, labels = (
            np.array([[e['score'], e['category_id'] - 1] for e in mine]).reshape(-1, 2).T
        )
        found.append(Found(corners, scores, labels.astype(int)))
    return image_results(boxes.val, found, boxes.classes)


def compared(ours: list[list], theirs: list[list], classes: list[str], figure: str) -> list:
    """Both means over the seeds and their difference, with 95 % intervals over the images."""
    from ttl_mm.explore.comparison import CONFIDENCE, Interval
    from ttl_mm.tasks.detection.voc_ap import evaluate_voc

    def means(chosen) -> np.ndarray:
        ap = [
            np.mean([evaluate_voc([run[i] for i in chosen], classes)[0][figure] for run in runs])
            for runs in (ours, theirs)
        ]
        return 100 * np.array([*ap, ap[0] - ap[1]])

    rng, count = np.random.default_rng(0), len(ours[0])
    drawn = [means(rng.integers(count, size=count)) for _ in range(RESAMPLES)]
    ends = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
    return [Interval(*values) for values in zip(means(range(count)), *ends)]


def labels(args: argparse.Namespace) -> int:
    """Few and many labels, five seeds."""
    import ttl_mm.registry  # noqa: F401  isort: skip
    from ttl_mm.finetuning.job import PRETRAINED, RANDOM
    from ttl_mm.tasks.classification.job import finetune

    rows = []
    for count in args.per_class:
        job = finetune(
            args.data, args.weights, args.out / f'labels{count}', per_class=count,
            seeds=args.seeds, epochs=args.epochs, size=args.size, rate=args.rate, workers=0,
            say=progress,
        )  # fmt: skip
        found = [job.accuracy(PRETRAINED), job.accuracy(RANDOM), job.lead]
        cells = (f'{v.mean:.1f} ({v.low:.1f} to {v.high:.1f})' for v in found)
        rows.append(f'| {count} | {" | ".join(cells)} |')
        progress(rows[-1])
    print('| images of a class | pre-trained | random | difference |\n|---|---|---|---|')
    print('\n'.join(rows))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest='part', required=True)
    for job in (overfit, pretrain, voc, labels):
        part = parts.add_parser(job.__name__, help=job.__doc__)
        part.set_defaults(job=job)
        part.add_argument('data', type=Path)
        if job is not pretrain:  # the demo's backbone has never seen photos
            part.add_argument('--weights', default=DEMO, required=job is labels)
        part.add_argument('--epochs', type=int)
        part.add_argument('--rate', type=float)
        text = 'edge of an image, or short side for a detector'
        size = {labels: None, pretrain: 48, voc: 128}.get(job, 80)
        part.add_argument('--size', type=int, default=size, help=text)
        part.add_argument('--out', type=Path, default=Path('work_dirs/bench_own_data'))
    parts.choices['pretrain'].add_argument('--channels', type=int, default=32)
    parts.choices['voc'].add_argument('--classes', nargs='+', default=['person', 'car', 'chair'])
    parts.choices['labels'].add_argument('--per-class', nargs='+', type=int, default=[5, 20, 100])
    for name, count in (('voc', 2), ('labels', 5)):
        parts.choices[name].add_argument('--seeds', type=int, default=count)
    args = parser.parse_args()
    return args.job(args)


if __name__ == '__main__':
    sys.exit(main())
