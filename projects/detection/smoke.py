"""Check that the four main configs run on your data: train, save, resume and test each of them.

    python projects/detection/smoke.py COCO_FOLDER VOCDEVKIT [--checkpoint FILE] [--images N]

It runs the shipped detectors, with their ResNet-50, through ``run.sh`` and ``test.sh``; image size,
batch size and numbers of proposals are small enough for a CPU. Training takes 2 iterations, and 1
more after resuming with the config in the work directory. The table has the largest figure of each:
after 3 iterations it shows that the metric works, not that the model does. Without VOC2012, VOC2007
is used twice.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import markdown

HERE = Path(__file__).resolve().parent
COCO, VOC = 'mask-rcnn_r50-c4_2x_coco', 'faster-rcnn_r50-c4_24k_voc0712'
CONFIGS = (COCO, f'{COCO}_moco', VOC, f'{VOC}_moco')
SIZES = ('', '_50', '_75', '_s', '_m', '_l')
FIGURES = {
    COCO: [f'coco/{kind}_mAP{size}' for kind in ('bbox', 'segm') for size in SIZES],
    VOC: [f'voc/{prefix}AP{iou}' for prefix in ('', 'coco101_') for iou in ('', '50', '75')],
}
SMALL = {
    'model.train_cfg.rpn_proposal.max_per_img': 64,
    'model.train_cfg.rcnn.sampler.num': 32,
    'model.test_cfg.rpn.max_per_img': 16,
    'model.test_cfg.rcnn.score_thr': 0.0,  # a metric has no figures if nothing is detected
    'model.test_cfg.rcnn.max_per_img': 16,
    'train_dataloader.batch_size': 2,
    'train_cfg.max_iters': 2,
    'train_cfg.val_interval': 1000,
    '+train_cfg.val_begin': 1000,
    'default_hooks.checkpoint.interval': 1,
    'default_hooks.logger.interval': 1,
    'default_hooks.precise_bn.iterations': 2,
    'default_hooks.render.images': 2,
    'default_hooks.render.score': 0.0,
}
SCALES = [(256, 160), (256, 192)]


def options(name: str, has_voc2012: bool = True, images: int | None = None) -> dict:
    """Options that make the config ``name`` small enough for a CPU."""
    chosen = dict(SMALL)
    datasets = [f'train_dataloader.dataset.datasets.{part}' for part in (0, 1)]
    if name.startswith(COCO):
        chosen['train_dataloader.dataset.pipeline.2.scales'] = SCALES
    else:
        chosen |= {f'{dataset}.pipeline.3.scales': SCALES for dataset in datasets}
        if not has_voc2012:
            chosen[f'{datasets[1]}.ann_file'] = 'VOC2007/ImageSets/Main/trainval.txt'
            chosen[f'{datasets[1]}.data_prefix.sub_data_root'] = 'VOC2007/'
    for loader in ('val_dataloader', 'test_dataloader'):
        chosen[f'{loader}.dataset.pipeline.1.scale'] = SCALES[0]
        if images:
            chosen[f'+{loader}.dataset.indices'] = images
    return chosen


def random_checkpoint(path: Path) -> str:
    """Save a randomly initialized ResNet-50."""
    import ttl_mm.registry  # noqa: F401  isort: skip
    import torch
    from mmpretrain.models import ResNet

    torch.manual_seed(0)
    torch.save({'state_dict': ResNet(50).state_dict(prefix='backbone.')}, path)
    return str(path)


def call(log: Path, script: str, *arguments: str, **environment: str) -> None:
    """Run a script of this folder and append its output to ``log``."""
    with log.open('a') as file:
        code = subprocess.run(
            [str(HERE / script), *arguments],
            env={**os.environ, 'PYTHON': sys.executable, **environment},
            stdout=file, stderr=subprocess.STDOUT,
        ).returncode  # fmt: skip
    if code:
        tail = '\n'.join(log.read_text().splitlines()[-15:])
        command = f'{script} {" ".join(arguments)}'
        sys.exit(f'{tail}\n{command}\nended with exit code {code}; the whole log: {log}')


def run(name: str, checkpoint: str, work_dir: Path, changes: dict) -> dict[str, float]:
    """Train, resume and test; return the figures of the test."""
    pairs = [f'{key}={value}'.replace(' ', '') for key, value in changes.items()]
    work_dir.mkdir(parents=True)
    log = work_dir / 'smoke.log'
    config = str(HERE / 'configs' / f'{name}.py')
    call(log, 'run.sh', config, checkpoint, '1', *pairs, f'+work_dir={work_dir}')
    config = str(work_dir / f'{name}.py')
    more = ('train_dataloader.batch_size=2', 'train_cfg.max_iters=3')
    call(log, 'run.sh', config, checkpoint, '1', *more, RESUME='1')
    call(log, 'test.sh', config, str(work_dir / 'iter_3.pth'))
    check_losses(work_dir)
    newest = max(work_dir.glob('*/*.json'))  # the test's: folders are named by their time
    return json.loads(newest.read_text())


def check_losses(work_dir: Path) -> None:
    """Check that every iteration was trained exactly once."""
    lines = [
        json.loads(line)
        for path in sorted(work_dir.glob('*/vis_data/scalars.json'))
        for line in path.read_text().splitlines()
    ]
    steps = [line['step'] for line in lines if 'loss' in line]
    if steps != [1, 2, 3]:
        sys.exit(f'{work_dir}: losses were logged at iterations {steps} instead of 1, 2, 3')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('coco', type=Path, help='has annotations, train2017 and val2017')
    parser.add_argument('voc', type=Path, help='has VOC2007, and VOC2012 if you have it')
    parser.add_argument('--checkpoint', help='a ResNet-50 to start from; random by default')
    parser.add_argument('--images', type=int, help='test on the first ones; on all by default')
    parser.add_argument('--out', type=Path, default=Path('work_dirs/detection_smoke'))
    args = parser.parse_args()
    if args.out.exists():
        parser.error(f'{args.out} exists: delete it or choose another --out')
    args.out.mkdir(parents=True)
    checkpoint = args.checkpoint or random_checkpoint(args.out / 'random_r50.pth')
    os.environ['COCO_ROOT'], os.environ['VOC_ROOT'] = str(args.coco), str(args.voc)
    has_voc2012 = (args.voc / 'VOC2012').is_dir()
    rows = []
    for name in CONFIGS:
        started = time.perf_counter()
        changes = options(name, has_voc2012, args.images)
        figures = run(name, checkpoint, args.out / name, changes)
        seconds = f'{time.perf_counter() - started:.0f} s'
        print(f'{name}: {seconds}; pictures in {args.out / name / "rendered"}', file=sys.stderr)
        values = [figures[figure] for figure in FIGURES[COCO if name.startswith(COCO) else VOC]]
        pictures = len(list((args.out / name / 'rendered').iterdir()))
        rows.append([f'`{name}`', seconds, len(values), f'{max(values):.4f}', pictures])
    header = ['config', 'train, resume, test', 'figures', 'the largest', 'pictures']
    print(markdown(header, rows))


if __name__ == '__main__':
    main()
