"""What ``ttl detect train`` does: a detector from the weights and one from random ones, a page."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ttl_mm.checkpoint.sealed import checkpoint_files, newest_valid
from ttl_mm.datasets.image_list import list_digest
from ttl_mm.engine.runner.processes import train_in_processes
from ttl_mm.errors import UserError
from ttl_mm.evaluation.resnet import Backbone, open_backbone
from ttl_mm.files.plain_json import read_json
from ttl_mm.outputs import claim_job
from ttl_mm.planning.train_config import write_train_config
from ttl_mm.pretraining import RunEndedError
from ttl_mm.tasks.detection.annotated import Boxes
from ttl_mm.tasks.detection.ap_tables import measure
from ttl_mm.tasks.detection.coco_file import found_as_coco, write_json
from ttl_mm.tasks.detection.detector import Detector, Found, write_detector
from ttl_mm.tasks.detection.own_config import SIZE, Schedule, training_config
from ttl_mm.tasks.detection.page import write_detector_page
from ttl_mm.tasks.detection.read_data import read_data

COMMAND = 'ttl detect train'
PRETRAINED, RANDOM = 'pre-trained', 'random'  # the starts


@dataclass(frozen=True)
class TrainedDetector:
    """A finished job: its paths, and the figures of every start, from 0 to 1."""

    paths: dict[str, Path]  # out, detector, page
    figures: dict[str, dict[str, Any]]


def train_detector(
    data: str | Path,
    weights: str,
    out: str | Path | None = None,
    model: str | None = None,
    classes: Sequence[str] | None = None,
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
) -> TrainedDetector | None:
    """Train a detector on boxes in any of three formats; the same call again continues.

    Args:
        data: What :func:`ttl_mm.tasks.detection.read_data.read_data` takes.
        weights: Of a ResNet, in any layout that ``ttl import`` reads.
        out: Folder for everything that is written.
        model: One of :data:`ttl_mm.tasks.detection.own_config.RECIPES`; Mask R-CNN by default if
            all objects have shapes, else Faster R-CNN, with FPN both.
        classes: The classes to learn; all by default.
        epochs: Length of a run; fitted to the number of images by default.
        batch_size: Images of a step.
        rate: Learning rate for 16 images; that of the recipe by default.
        size: Short side of the images in pixels.
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
    from ttl_mm.tasks.detection.requirements import require_detection

    require_detection()
    boxes, backbone = read_data(data, classes, say), open_backbone(weights)
    model = _choose_model(model, boxes, data)
    schedule = Schedule(epochs, batch_size, rate, workers)
    images = sum(bool(image.things) for image in boxes.train)
    plan = (model, backbone, data, boxes.classes, images, size, schedule)
    say(
        f'{model}, {len(boxes.classes)} classes; {images:,} images to train on, {len(boxes.val):,} '
        f'to test on ({boxes.how}); {schedule.steps_for(images):,} steps of {batch_size} images, '
        f'short side {size} px.'
    )
    if config_out is not None:
        path = Path(config_out)
        if path.exists():
            raise UserError(f'{path} exists: name another file with --config-out, or delete it.')
        write_train_config(training_config(*plan, seed=seed), path, f'Planned by {COMMAND}')
        say(f'{path}\nStart: python tools/train.py {path}')
        return None
    asked = {
        'data': str(Path(data).resolve()), 'weights': backbone.weights, 'model': model,
        'images': list_digest([str(i.path) for i in (*boxes.train, *boxes.val)]),
        'classes': boxes.classes, 'size': size, 'seed': seed, 'baseline': baseline,
        **asdict(schedule),
    }  # fmt: skip
    out = claim_job(out or Path('work_dirs') / f'detect_{Path(data).stem}', COMMAND, asked)
    starts = [PRETRAINED, RANDOM] if baseline else [PRETRAINED]
    figures = {}
    for number, start in enumerate(starts, 1):
        folder = out / 'runs' / start
        if not (folder / 'result.json').is_file():
            say(f'Run {number} of {len(starts)}: {start}.')
            cfg = training_config(*plan, random=start == RANDOM, seed=seed)
            _train(cfg, folder, model, backbone, boxes, size)
            _test(folder, boxes, device)
        figures[start] = read_json(folder / 'result.json')
    return _close(out, boxes, figures, device, say)


def _choose_model(model: str | None, boxes: Boxes, data: str | Path) -> str:
    if model is None:
        return 'mask-rcnn-fpn' if boxes.has_shapes else 'faster-rcnn-fpn'
    if model == 'mask-rcnn-fpn' and not boxes.has_shapes:
        raise UserError(
            f'--model {model} learns shapes, and objects of {data} have boxes only: take '
            'faster-rcnn-fpn.'
        )
    return model


def _train(cfg: Any, folder: Path, model: str, backbone: Backbone, boxes: Boxes, size: int) -> None:
    config, detector = folder / 'plan' / 'config.py', folder / 'detector.pth'
    if detector.is_file():
        return
    if not config.is_file():
        write_train_config(cfg, config, f'Planned by {COMMAND}')
    if code := train_in_processes(config, folder):
        raise RunEndedError(f'{folder} is not finished. The same line continues it.', code)
    checkpoint, _ = newest_valid(folder)
    if checkpoint is None:
        raise UserError(f'{folder} holds no checkpoint: delete the folder and start again.')
    write_detector(checkpoint, detector, model, backbone, boxes.classes, size)


def find_all(detector: Path, boxes: Boxes, device: str | None) -> list[Found]:
    """What a detector finds in the validation images.

    Raises:
        UserError: One of them cannot be read.
    """
    paths = [image.path for image in boxes.val]
    found = []
    for path, result in zip(paths, Detector(detector, device).find(paths)):
        if result is None:
            raise UserError(f'{path} cannot be read: replace it, or take it out of the data.')
        found.append(result)
    return found


def _test(folder: Path, boxes: Boxes, device: str | None) -> None:
    found = find_all(folder / 'detector.pth', boxes, device)
    names = [str(image.path) for image in boxes.val]
    sizes = [(image.width, image.height) for image in boxes.val]
    write_json(found_as_coco(names, sizes, found, boxes.classes), folder / 'detections.json')
    write_json(measure(boxes.val, found, boxes.classes), folder / 'result.json')
    for path in checkpoint_files(folder):  # of a finished run nobody needs them
        path.unlink()


def _close(
    out: Path, boxes: Boxes, figures: dict[str, dict], device: str | None, say
) -> TrainedDetector:
    paths = {'detector': out / 'detector.pth', 'page': out / 'page' / 'index.html'}
    shutil.copyfile(out / 'runs' / PRETRAINED / 'detector.pth', paths['detector'])
    (out / 'figures.json').write_text(json.dumps(figures, indent=1) + '\n')
    if not paths['page'].is_file():
        found = find_all(paths['detector'], boxes, device)
        write_detector_page(out, boxes, figures, found, verdict(figures))
    say(table(figures))
    if RANDOM in figures:
        say(verdict(figures))
    say('\n'.join(f'{name:10}{path}' for name, path in paths.items()))
    say(f'Use it: ttl detect run IMAGES --weights {paths["detector"]}')
    return TrainedDetector({'out': out, **paths}, figures)


def table(figures: dict[str, dict[str, Any]]) -> str:
    """AP in percent, a line for every start and kind."""
    kinds = [k for k in ('COCO boxes', 'COCO masks', 'VOC boxes') if k in figures[PRETRAINED]]
    lines = [f'{"in %":26}{"AP":>7}{"AP50":>7}{"AP75":>7}']
    for kind in kinds:
        for start, found in figures.items():
            values = (found.get(kind, {}).get(name) or 0.0 for name in ('AP', 'AP50', 'AP75'))
            cells = ''.join(f'{100 * value:7.1f}' for value in values)
            lines.append(f'{kind + ", " + start:26}{cells}')
    return '\n'.join(lines)


def verdict(figures: dict[str, dict[str, Any]]) -> str:
    """Which start is ahead, in one sentence; nothing without a baseline."""
    if RANDOM not in figures:
        return ''
    ours, theirs = (100 * figures[s]['COCO boxes']['AP50'] for s in (PRETRAINED, RANDOM))
    words = 'is ahead of' if ours > theirs else 'is not ahead of'
    return (
        f'The pre-trained start {words} random weights under the same budget: box AP50 {ours:.1f} '
        f'and {theirs:.1f} %. One run each: differences of a point or two may be chance.'
    )
