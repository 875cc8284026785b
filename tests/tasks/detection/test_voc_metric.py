"""The VOC metric on samples as mmdet hands them over."""

import torch

from ttl_mm.tasks.detection.voc_metric import VOCDetectionMetric


def metric_of(found: list, true: list, classes: tuple = ('a',), **options) -> VOCDetectionMetric:
    """A metric that was given one image; ``true`` in VOCDataset's inclusive corners."""
    boxes = dict(pred_instances=found, gt_instances=true, ignored_instances=[])
    sample = {
        key: dict(bboxes=torch.tensor(rows).view(-1, 4), labels=torch.zeros(len(rows)).long())
        for key, rows in boxes.items()
    }
    sample['pred_instances']['scores'] = torch.ones(len(found))
    metric = VOCDetectionMetric(**options)
    metric.dataset_meta = dict(classes=classes)
    metric.process({}, [sample])
    return metric


def test_box_conventions() -> None:
    """Pixels 3 to 6 are the box 3, 6 with inclusive corners and 3, 7 as an extent."""
    for extents, far in ((False, 6.0), (True, 7.0)):
        metric = metric_of([[3.0, 3.0, far, far]], [[3.0, 3.0, 6.0, 6.0]], extents=extents)
        figures = metric.evaluate(size=1)
        assert figures['voc/AP'] == figures['voc/coco101_AP'] == 1.0


def test_table_is_logged_per_class(monkeypatch) -> None:
    lines = []
    monkeypatch.setattr(
        'ttl_mm.tasks.detection.voc_metric.MMLogger.get_current_instance',
        lambda: type('Log', (), {'info': staticmethod(lines.append)}),
    )
    box = [[3.0, 3.0, 6.0, 6.0]]
    metric_of(box, box, ('cat', 'dog')).evaluate(size=1)
    rows = [line.split() for line in lines[0].splitlines() if line]
    assert ['cat', '1', '1', '100.0', '100.0', '100.0', '100.0'] in rows
    assert ['dog', '0', '0', 'nan', 'nan', 'nan', 'nan'] in rows
    assert ['mean', '1', '1', '100.0', '100.0', '100.0', '100.0'] in rows
