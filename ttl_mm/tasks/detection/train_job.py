"""What ``ttl detect train`` does: a detector from the weights and one from random ones, a page."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ttl_mm.datasets.image_list import list_digest
from ttl_mm.errors import UserError
from ttl_mm.finetuning.job import (
    PRETRAINED,
    Run,
    Say,
    Task,
    Trained,
    close,
    train_all,
    verdict,
    write_config,
)
from ttl_mm.finetuning.network_file import write_network
from ttl_mm.finetuning.resnet import Backbone, open_backbone
from ttl_mm.finetuning.schedule import Schedule
from ttl_mm.outputs import write_json
from ttl_mm.tasks.detection.annotated import Boxes
from ttl_mm.tasks.detection.ap_tables import measure
from ttl_mm.tasks.detection.coco_file import found_as_coco
from ttl_mm.tasks.detection.detector import KIND, Detector, Found
from ttl_mm.tasks.detection.own_config import SIZE, steps_for, training_config
from ttl_mm.tasks.detection.page import write_detector_page
from ttl_mm.tasks.detection.read_data import read_data
from ttl_mm.tasks.detection.requirements import require_detection


@dataclass(frozen=True)
class DetectorTask(Task):
    """Train on boxes, test on those of the validation images after the last step."""

    data: str | Path
    boxes: Boxes
    backbone: Backbone  # to start from
    model: str
    size: int  # short side of the images
    schedule: Schedule
    device: str | None = None  # to test on

    command = 'ttl detect train'
    use = 'ttl detect run IMAGES'
    product = 'detector'

    @property
    def images(self) -> int:
        """How many there are to train on: those with objects."""
        return sum(bool(image.things) for image in self.boxes.train)

    def config(self, folder: Path, seed: int, random: bool) -> Config:
        return training_config(
            self.model, self.backbone, self.data, self.boxes.classes, self.images, self.size,
            self.schedule, random, seed,
        )  # fmt: skip

    def write(self, checkpoint: Path, path: Path) -> None:
        meta = KIND.description(self.model, self.backbone, self.boxes.classes, self.size)
        write_network(checkpoint, path, meta)

    def test(self, path: Path, folder: Path) -> dict[str, Any]:
        """All figures of average precision; the boxes are written as COCO json."""
        found, images = self.find(path), self.boxes.val
        names, sizes = [str(i.path) for i in images], [(i.width, i.height) for i in images]
        content = found_as_coco(names, sizes, found, self.boxes.classes)
        write_json(content, folder / 'detections.json')
        return measure(images, found, self.boxes.classes)

    def find(self, path: Path) -> list[Found]:
        """What a detector finds in the validation images.

        Raises:
            UserError: One of them cannot be read.
        """
        paths = [image.path for image in self.boxes.val]
        found = []
        for image, result in zip(paths, Detector(path, self.device).find(paths)):
            if result is None:
                raise UserError(f'{image} cannot be read: replace it, or take it out of the data.')
            found.append(result)
        return found


def train_detector(
    data: str | Path, weights: str, out: str | Path | None = None, model: str | None = None,
    classes: Sequence[str] | None = None, epochs: int | None = None, batch_size: int = 4,
    rate: float | None = None, size: int = SIZE, workers: int = 2, seed: int = 0,
    baseline: bool = True, device: str | None = None, config_out: str | Path | None = None,
    say: Say = print,
) -> Trained | None:  # fmt: skip
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
    require_detection()
    boxes, backbone = read_data(data, classes, say), open_backbone(weights)
    model, schedule = _choose_model(model, boxes, data), Schedule(epochs, batch_size, rate, workers)
    task = DetectorTask(data, boxes, backbone, model, size, schedule, device)
    say(
        f'{model}, {len(boxes.classes)} classes; {task.images:,} images to train on, '
        f'{len(boxes.val):,} to test on ({boxes.how}); {steps_for(schedule, task.images):,} steps '
        f'of {batch_size} images, short side {size} px.'
    )
    if config_out is not None:
        write_config(task, config_out, seed, say)
        return None
    asked = {
        'data': str(Path(data).resolve()), 'weights': backbone.weights, 'model': model,
        'images': list_digest([str(i.path) for i in (*boxes.train, *boxes.val)]),
        'classes': boxes.classes, 'size': size, 'seed': seed, **asdict(schedule),
    }  # fmt: skip
    out = out or Path('work_dirs') / f'detect_{Path(data).stem}'
    return _close(task, train_all(task, out, asked, [seed], baseline, say), say)


def _choose_model(model: str | None, boxes: Boxes, data: str | Path) -> str:
    if model is None:
        return 'mask-rcnn-fpn' if boxes.has_shapes else 'faster-rcnn-fpn'
    if model == 'mask-rcnn-fpn' and not boxes.has_shapes:
        raise UserError(
            f'--model {model} learns shapes, and objects of {data} have boxes only: take '
            'faster-rcnn-fpn.'
        )
    return model


def _close(task: DetectorTask, runs: list[Run], say: Say) -> Trained:
    figures = {run.start: run.result for run in runs}
    lead = verdict('box AP50', [found['COCO boxes']['AP50'] for found in figures.values()])

    def write_page(out: Path) -> None:
        found = task.find(runs[0].folder / task.file)
        write_detector_page(out, task.boxes, runs, found, lead)

    return Trained(close(task, runs[0], figures, write_page, [table(figures), lead], say), figures)


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
