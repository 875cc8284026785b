"""What ``ttl segment train`` and ``ttl segment run`` do."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from ttl_mm.checkpoint.sealed import checkpoint_files, newest_valid
from ttl_mm.datasets.decode import decode_image
from ttl_mm.datasets.image_list import list_digest
from ttl_mm.engine.runner.processes import train_in_processes
from ttl_mm.errors import UserError, counted
from ttl_mm.evaluation.resnet import open_backbone
from ttl_mm.files.plain_json import read_json
from ttl_mm.outputs import claim_folder, claim_job
from ttl_mm.planning.image_sources import find_images
from ttl_mm.planning.train_config import write_train_config
from ttl_mm.pretraining import RunEndedError
from ttl_mm.tasks.segmentation.masked import Masks, colored, read_mask, read_masks, write_mask
from ttl_mm.tasks.segmentation.mean_iou import confusion, intersections
from ttl_mm.tasks.segmentation.own_config import SIZE, Schedule, training_config
from ttl_mm.tasks.segmentation.page import write_segmenter_page
from ttl_mm.tasks.segmentation.segmenter import Segmenter, write_segmenter

COMMAND, RUN = 'ttl segment train', 'ttl segment run'
PRETRAINED, RANDOM = 'pre-trained', 'random'  # the starts


@dataclass(frozen=True)
class TrainedSegmenter:
    """A finished job: its paths, and the figures of every start, from 0 to 1."""

    paths: dict[str, Path]  # out, segmenter, page
    figures: dict[str, dict[str, Any]]


def train_segmenter(
    data: str | Path,
    weights: str,
    out: str | Path | None = None,
    epochs: int | None = None,
    batch_size: int = 4,
    rate: float | None = None,
    size: int = SIZE,
    workers: int = 2,
    seed: int = 0,
    baseline: bool = True,
    device: str | None = None,
    config_out: str | Path | None = None,
    say: Callable[[str], None] = print,
) -> TrainedSegmenter | None:
    """Train FCN on masks of VOC or ADE style; the same call again continues.

    Args:
        data: What :func:`ttl_mm.tasks.segmentation.masked.read_masks` takes.
        weights: Of a ResNet, in any layout that ``ttl import`` reads.
        out: Folder for everything that is written.
        epochs: Length of a run; 50 by default, more where the images are few.
        batch_size: Patches of a step.
        rate: Learning rate for 16 patches; that of the recipe by default.
        size: Edge of the patches, and short side of the images in a test.
        workers: Processes that load images.
        seed: Of everything that is random.
        baseline: Whether to train from random weights, too, under the same budget.
        device: Where to test.
        config_out: Write the config instead of training.
        say: Receives the lines for the user.

    Returns:
        The finished job; None after ``config_out``.

    Raises:
        UserError: Something to correct; nothing was overwritten.
        RunEndedError: A run was interrupted or stopped by a guard; the same call continues.
    """
    masks, backbone = read_masks(data, say), open_backbone(weights)
    schedule = Schedule(epochs, batch_size, rate, workers)
    plan = (backbone, data, len(masks.classes), len(masks.train), size, schedule)
    config = training_config(*plan, seed=seed)
    say(
        f'FCN, {len(masks.classes)} classes; {len(masks.train):,} images to train on, '
        f'{len(masks.val):,} to test on ({masks.how}); {config.train_cfg.max_epochs} epochs, '
        f'patches of {size} px.'
    )
    if config_out is not None:
        path = Path(config_out)
        if path.exists():
            raise UserError(f'{path} exists: name another file with --config-out, or delete it.')
        write_train_config(config, path, f'Planned by {COMMAND}')
        say(f'{path}\nStart: python tools/train.py {path}')
        return None
    asked = {
        'data': str(Path(data).resolve()), 'weights': backbone.weights, 'size': size,
        'images': list_digest([str(pair.path) for pair in (*masks.train, *masks.val)]),
        'seed': seed, 'baseline': baseline, **asdict(schedule),
    }  # fmt: skip
    out = claim_job(out or Path('work_dirs') / f'segment_{Path(data).stem}', COMMAND, asked)
    starts = [PRETRAINED, RANDOM] if baseline else [PRETRAINED]
    for number, start in enumerate(starts, 1):
        folder = out / 'runs' / start
        if (folder / 'result.json').is_file():
            continue
        say(f'Run {number} of {len(starts)}: {start}.')
        path, segmenter = folder / 'plan' / 'config.py', folder / 'segmenter.pth'
        if not path.is_file():
            cfg = training_config(*plan, random=start == RANDOM, seed=seed)
            write_train_config(cfg, path, f'Planned by {COMMAND}')
        if not segmenter.is_file():
            if code := train_in_processes(path, folder):
                message = f'{folder} is not finished. The same line continues it.'
                raise RunEndedError(message, code)
            checkpoint, _ = newest_valid(folder)
            if checkpoint is None:
                raise UserError(f'{folder} holds no checkpoint: delete it and start again.')
            write_segmenter(checkpoint, segmenter, backbone, masks.classes, size)
        _test(segmenter, masks, folder, device)
    figures = {start: read_json(out / 'runs' / start / 'result.json') for start in starts}
    return _close(out, masks, figures, device, say)


def _test(segmenter: Path, masks: Masks, folder: Path, device: str | None) -> None:
    """Measure on the validation images; the last step counts, none is chosen."""
    classes = len(masks.classes)
    counts = np.zeros((classes, classes), int)
    paths = [pair.path for pair in masks.val]
    for pair, found in zip(masks.val, Segmenter(segmenter, device).find(paths)):
        if found is None:
            raise UserError(f'{pair.path} cannot be read: replace it.')
        counts += confusion(read_mask(pair.mask, masks.zero_is_none), found, classes)
    each = intersections(counts)
    result = {
        'mIoU': float(np.nanmean(each)),
        'pixels': float(np.diag(counts).sum() / max(1, counts.sum())),
        'classes': {
            name: None if np.isnan(value) else float(value)
            for name, value in zip(masks.classes, each)
        },
    }
    partial = folder / 'result.partial'
    partial.write_text(json.dumps(result) + '\n')
    partial.replace(folder / 'result.json')
    for path in checkpoint_files(folder):  # of a finished run nobody needs them
        path.unlink()


def _close(
    out: Path, masks: Masks, figures: dict[str, dict], device: str | None, say
) -> TrainedSegmenter:
    paths = {'segmenter': out / 'segmenter.pth', 'page': out / 'page' / 'index.html'}
    shutil.copyfile(out / 'runs' / PRETRAINED / 'segmenter.pth', paths['segmenter'])
    (out / 'figures.json').write_text(json.dumps(figures, indent=1) + '\n')
    if not paths['page'].is_file():
        found = Segmenter(paths['segmenter'], device).find([pair.path for pair in masks.val])
        write_segmenter_page(out, masks, figures, found, verdict(figures))
    for start, result in figures.items():
        share, pixels = 100 * result['mIoU'], 100 * result['pixels']
        say(f'{start:12}mIoU {share:5.1f} %, {pixels:5.1f} % of pixels correct')
    if RANDOM in figures:
        say(verdict(figures))
    say('\n'.join(f'{name:12}{path}' for name, path in paths.items()))
    say(f'Use it: ttl segment run IMAGES --weights {paths["segmenter"]}')
    return TrainedSegmenter({'out': out, **paths}, figures)


def verdict(figures: dict[str, dict[str, Any]]) -> str:
    """Which start is ahead, in one sentence; nothing without a baseline."""
    if RANDOM not in figures:
        return ''
    ours, theirs = (100 * figures[start]['mIoU'] for start in (PRETRAINED, RANDOM))
    words = 'is ahead of' if ours > theirs else 'is not ahead of'
    return (
        f'The pre-trained start {words} random weights under the same budget: mIoU {ours:.1f} and '
        f'{theirs:.1f} %. One run each: differences of a point or two may be chance.'
    )


def run_segmenter(
    images: Sequence[str | Path], weights: str, out: str | Path = 'masks', pictures: int = 50,
    device: str | None = None, overwrite: bool = False, say: Callable[[str], None] = print,
) -> Path:  # fmt: skip
    """Write a mask for every image, in the size of the image, and pictures of the first ones.

    Args:
        images: Folders of any depth, or lists of files.
        weights: ``segmenter.pth`` of ``ttl segment train``.
        out: A folder.
        pictures: How many images to draw.
        device: Where to compute.
        overwrite: Whether files of others in the folder may be replaced.
        say: Receives the lines for the user.

    Raises:
        UserError: The weights are no segmentation network, or there are no images.
    """
    found = find_images(images)
    segmenter = Segmenter(weights, device)
    folder = claim_folder(out, RUN, overwrite)
    for part in ('masks', 'pictures'):
        (folder / part).mkdir(exist_ok=True)
    names = list(found.names())
    broken, done = [], 0
    for name, mask in zip(names, segmenter.find([found.root / name for name in names])):
        if mask is None:
            broken.append(name)
            continue
        image = decode_image(found.root / name)
        mask = cv2.resize(mask, image.shape[1::-1], interpolation=cv2.INTER_NEAREST)
        stem = name.replace('/', '_').rpartition('.')[0]
        write_mask(mask, folder / 'masks' / f'{stem}.png')
        if done < pictures:
            mixed = (image[..., ::-1] // 2 + colored(mask) // 2).astype(np.uint8)
            Image.fromarray(mixed).save(folder / 'pictures' / f'{stem}.png')
        done += 1
    (folder / 'classes.txt').write_text('\n'.join(segmenter.classes) + '\n')
    if broken:
        left_out = counted(len(broken), 'image')
        say(f'left out {left_out} that cannot be read: {", ".join(broken[:3])}')
    say(f'{done} masks in {folder / "masks"}, whose values are the lines of classes.txt, from 0 on')
    return folder
