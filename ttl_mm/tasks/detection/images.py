"""The dataset of ``ttl detect train``: boxes in any of three formats, as mmdet takes them."""

from collections.abc import Sequence

from mmdet.datasets.base_det_dataset import BaseDetDataset

from ttl_mm.registry import DATASETS
from ttl_mm.tasks.detection.annotated import Annotated, Thing
from ttl_mm.tasks.detection.read_data import read_data


@DATASETS.register_module()
class DetectionImages(BaseDetDataset):
    """Images with boxes of COCO json, VOC folders or YOLO text files, read where they lie.

    Boxes are extents. Difficult objects of VOC are trained on, and ignored in validation; crowds of
    COCO are ignored in both. Images without objects are left out of training.

    Args:
        data: What :func:`ttl_mm.tasks.detection.read_data.read_data` takes.
        split: 'train' or 'val'.
        classes: Their names, in the order of their numbers.
        pipeline: Transforms of mmdet.
    """

    def __init__(self, data: str, split: str, classes: Sequence[str], pipeline: list) -> None:
        self.data, self.split = data, split
        metainfo = {'classes': tuple(classes), 'palette': 'random'}
        super().__init__(metainfo=metainfo, pipeline=pipeline, serialize_data=False)

    def load_data_list(self) -> list[dict]:
        """What mmdet wants to know about every image."""
        classes = self.metainfo['classes']
        found = read_data(self.data, classes, say=lambda text: None).split(self.split)
        training = self.split == 'train'
        kept = [image for image in found if image.things or not training]
        return [_info(number, image, classes, training) for number, image in enumerate(kept)]


def _info(number: int, image: Annotated, classes: Sequence[str], training: bool) -> dict:
    instances = [_instance(thing, image, classes, training) for thing in image.things]
    return {
        'img_path': str(image.path), 'img_id': number, 'width': image.width,
        'height': image.height, 'instances': instances,
    }  # fmt: skip


def _instance(thing: Thing, image: Annotated, classes: Sequence[str], training: bool) -> dict:
    x1, y1, x2, y2 = thing.box
    box = [max(x1, 0.0), max(y1, 0.0), min(x2, image.width), min(y2, image.height)]
    ignored = thing.crowd or (thing.hard and not training)
    found = {'bbox': box, 'bbox_label': classes.index(thing.name), 'ignore_flag': int(ignored)}
    return {**found, 'mask': thing.shape} if thing.shape else found
