"""Check that the detector learns: overfit Mask R-CNN C4 to 8 images of COCO, on a CPU.

    python tools/benchmarks/bench_detection.py COCO_FOLDER

It starts from the demo's backbone, a narrow ResNet-18 for small images. The config is the shipped
one, with its losses, samplers, schedule, norms, precise BN and pre-trained weights; only sizes
differ. The exit code is 1 unless box AP50 on the same 8 images exceeds 0.5. The curve is written to
``OUT/curve.json`` and ``OUT/curve.png``.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.figures import ROOT, markdown

CONFIG = ROOT / 'projects' / 'detection' / 'configs' / 'mask-rcnn_r50-c4_2x_coco.py'
GOAL = 0.5


def subset(coco: Path, out: Path, count: int, share: float = 0.01) -> Path:
    """A COCO folder that trains and tests on ``count`` images of another.

    They are the first ones, by id, in which every object covers at least ``share`` of the image:
    smaller objects vanish at an image size that a CPU can handle.
    """
    content = json.loads((coco / 'annotations' / 'instances_train2017.json').read_text())
    areas = {image['id']: [] for image in content['images']}
    for annotation in content['annotations']:
        areas[annotation['image_id']].append(annotation['area'])
    content['images'] = [
        image
        for image in sorted(content['images'], key=lambda image: image['id'])
        if min(areas[image['id']], default=0) >= share * image['width'] * image['height']
    ][:count]
    ids = {image['id'] for image in content['images']}
    content['annotations'] = [a for a in content['annotations'] if a['image_id'] in ids]
    (out / 'annotations').mkdir(parents=True, exist_ok=True)
    for split in ('train2017', 'val2017'):
        (out / 'annotations' / f'instances_{split}.json').write_text(json.dumps(content))
        if not (out / split).exists():
            (out / split).symlink_to((coco / 'train2017').resolve())
    return out


def options(checkpoint: str, iterations: int, side: int) -> dict:
    """The shipped config for a narrow ResNet-18, whose third stage has stride 4."""
    return {
        'model.backbone.type': 'mmpretrain.ResNet_CIFAR',
        'model.backbone.depth': 18,
        '+model.backbone.stem_channels': 16,
        '+model.backbone.base_channels': 16,
        'model.backbone.init_cfg.checkpoint': checkpoint,
        'model.rpn_head.in_channels': 64,
        'model.rpn_head.feat_channels': 64,
        'model.rpn_head.anchor_generator.strides': [4],
        'model.rpn_head.anchor_generator.scales': [2, 4, 8, 16, 32, 64],
        'model.roi_head.shared_head.depth': 18,
        '+model.roi_head.shared_head.base_channels': 16,
        'model.roi_head.shared_head.init_cfg.checkpoint': checkpoint,
        'model.roi_head.bbox_roi_extractor.out_channels': 64,
        'model.roi_head.bbox_roi_extractor.featmap_strides': [4],
        'model.roi_head.bbox_head.in_channels': 128,
        'model.roi_head.mask_head.in_channels': 128,
        'model.roi_head.mask_head.conv_out_channels': 32,
        'model.train_cfg.rpn_proposal.nms_pre': 2000,
        'model.train_cfg.rpn_proposal.max_per_img': 256,
        'model.train_cfg.rcnn.sampler.num': 32,
        'model.test_cfg.rpn.nms_pre': 1000,
        'model.test_cfg.rpn.max_per_img': 100,
        'train_dataloader.batch_size': 4,
        'train_dataloader.num_workers': 0,
        'train_dataloader.persistent_workers': False,
        'val_dataloader.num_workers': 0,
        'val_dataloader.persistent_workers': False,
        'train_dataloader.dataset.pipeline.2.scales': [(side, side)],
        'val_dataloader.dataset.pipeline.1.scale': (side, side),
        'train_cfg.max_iters': iterations,
        'train_cfg.val_interval': max(1, iterations // 10),
        'param_scheduler.0.end': iterations // 10,
        'param_scheduler.1.end': iterations,
        'param_scheduler.1.T_max': iterations,
        'default_hooks.checkpoint.interval': iterations,
        'default_hooks.precise_bn.iterations': 20,
        'default_hooks.logger.interval': 10,
    }


def curve(work_dir: Path) -> list[dict]:
    """Box and mask AP50 by iteration as logged; iterations without any detection are left out."""
    lines = [
        json.loads(line)
        for path in sorted(work_dir.glob('*/vis_data/scalars.json'))
        for line in path.read_text().splitlines()
    ]
    return [
        {'iteration': line['step'], 'box_ap50': line['coco/bbox_mAP_50'],
         'mask_ap50': line['coco/segm_mAP_50']}
        for line in lines if 'coco/bbox_mAP_50' in line
    ]  # fmt: skip


def draw(points: list[dict], path: Path) -> None:
    import matplotlib

    matplotlib.use('agg')
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(figsize=(6, 3.5))
    steps = [point['iteration'] for point in points]
    for key, label in (('box_ap50', 'boxes'), ('mask_ap50', 'masks')):
        axes.plot(steps, [point[key] for point in points], marker='o', label=label)
    axes.axhline(GOAL, color='gray', linestyle=':', label='goal for boxes')
    axes.set(xlabel='iteration', ylabel='AP50 on the 8 training images', ylim=(0, 1))
    axes.legend()
    plt.savefig(path, dpi=120, bbox_inches='tight')


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('coco', type=Path)
    parser.add_argument('--checkpoint', default='ttl_mm://ttl_r18_digits')
    parser.add_argument('--iterations', type=int, default=400)
    parser.add_argument('--side', type=int, default=128, help='longer side of the images')
    parser.add_argument('--lr', type=float, default=0.05)
    parser.add_argument('--out', type=Path, default=Path('work_dirs/bench_detection'))
    args = parser.parse_args()
    os.environ['COCO_ROOT'] = str(subset(args.coco, args.out / 'coco', count=8))
    from ttl_mm.engine.runner.launch import train

    start = time.perf_counter()
    sizes = options(args.checkpoint, args.iterations, args.side)
    work_dir = args.out / 'run'
    train(str(CONFIG), str(work_dir), cfg_options=sizes | {'optim_wrapper.optimizer.lr': args.lr})
    points = curve(work_dir)
    result = {
        'checkpoint': args.checkpoint,
        'iterations': args.iterations,
        'side': args.side,
        'lr': args.lr,
        'seconds': round(time.perf_counter() - start),
        'curve': points,
    }
    (args.out / 'curve.json').write_text(json.dumps(result, indent=1) + '\n')
    draw(points, args.out / 'curve.png')
    rows = [
        [name, *(f'{point[key]:.3f}' for point in points)]
        for key, name in (('box_ap50', 'box AP50'), ('mask_ap50', 'mask AP50'))
    ]
    print(markdown(['iteration', *(point['iteration'] for point in points)], rows))
    return 0 if points and points[-1]['box_ap50'] > GOAL else 1


if __name__ == '__main__':
    sys.exit(main())
