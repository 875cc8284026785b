"""What ``ttl segment train`` does: a network from the weights and one from random ones, a page."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config

from ttl_mm.datasets.image_list import list_digest
from ttl_mm.errors import UserError
from ttl_mm.finetuning.job import Run, Say, Task, Trained, close, train_all, verdict, write_config
from ttl_mm.finetuning.network_file import write_network
from ttl_mm.finetuning.resnet import Backbone, open_backbone
from ttl_mm.finetuning.schedule import Schedule
from ttl_mm.tasks.segmentation.masked import Masks, read_mask, read_masks
from ttl_mm.tasks.segmentation.mean_iou import confusion, intersections
from ttl_mm.tasks.segmentation.own_config import SIZE, training_config
from ttl_mm.tasks.segmentation.page import write_segmenter_page
from ttl_mm.tasks.segmentation.segmenter import FCN, KIND, Segmenter


@dataclass(frozen=True)
class SegmenterTask(Task):
    """Train on masks, test on those of the validation images after the last step."""

    data: str | Path
    masks: Masks
    backbone: Backbone  # to start from
    size: int  # edge of the patches
    schedule: Schedule
    device: str | None = None  # to test on

    command = 'ttl segment train'
    use = 'ttl segment run IMAGES'
    product = 'segmenter'

    def config(self, folder: Path, seed: int, random: bool) -> Config:
        return training_config(
            self.backbone, self.data, len(self.masks.classes), len(self.masks.train), self.size,
            self.schedule, random, seed,
        )  # fmt: skip

    def write(self, checkpoint: Path, path: Path) -> None:
        meta = KIND.description(FCN, self.backbone, self.masks.classes, self.size)
        write_network(checkpoint, path, meta)

    def test(self, path: Path, folder: Path) -> dict[str, Any]:
        """Intersection over union; the last step counts, none is chosen."""
        masks, classes = self.masks, len(self.masks.classes)
        counts = np.zeros((classes, classes), int)
        paths = [pair.path for pair in masks.val]
        for pair, found in zip(masks.val, Segmenter(path, self.device).find(paths)):
            if found is None:
                raise UserError(f'{pair.path} cannot be read: replace it.')
            counts += confusion(read_mask(pair.mask, masks.zero_is_none), found, classes)
        each = intersections(counts)
        values = [None if np.isnan(value) else float(value) for value in each]
        return {
            'mIoU': float(np.nanmean(each)),
            'pixels': float(np.diag(counts).sum() / max(1, counts.sum())),
            'classes': dict(zip(masks.classes, values)),
        }


def train_segmenter(
    data: str | Path, weights: str, out: str | Path | None = None, epochs: int | None = None,
    batch_size: int = 4, rate: float | None = None, size: int = SIZE, workers: int = 2,
    seed: int = 0, baseline: bool = True, device: str | None = None,
    config_out: str | Path | None = None, say: Say = print,
) -> Trained | None:  # fmt: skip
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
    task = SegmenterTask(data, masks, backbone, size, schedule, device)
    length = task.config(Path(), seed, random=False).train_cfg.max_epochs
    say(
        f'FCN, {len(masks.classes)} classes; {len(masks.train):,} images to train on, '
        f'{len(masks.val):,} to test on ({masks.how}); {length} epochs, patches of {size} px.'
    )
    if config_out is not None:
        write_config(task, config_out, seed, say)
        return None
    asked = {
        'data': str(Path(data).resolve()), 'weights': backbone.weights, 'size': size,
        'images': list_digest([str(pair.path) for pair in (*masks.train, *masks.val)]),
        'seed': seed, **asdict(schedule),
    }  # fmt: skip
    out = out or Path('work_dirs') / f'segment_{Path(data).stem}'
    return _close(task, train_all(task, out, asked, [seed], baseline, say), say)


def _close(task: SegmenterTask, runs: list[Run], say: Say) -> Trained:
    figures = {run.start: run.result for run in runs}
    lead = verdict('mIoU', [found['mIoU'] for found in figures.values()])
    lines = [
        f'{start:12}mIoU {100 * found["mIoU"]:5.1f} %, {100 * found["pixels"]:5.1f} % of pixels '
        'correct'
        for start, found in figures.items()
    ]

    def write_page(out: Path) -> None:
        paths = [pair.path for pair in task.masks.val]
        found = Segmenter(runs[0].folder / task.file, task.device).find(paths)
        write_segmenter_page(out, task.masks, runs, found, lead)

    return Trained(close(task, runs[0], figures, write_page, [*lines, lead], say), figures)
