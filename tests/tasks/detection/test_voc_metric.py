"""The VOC metric on samples as mmdet hands them over."""

import torch

from ttl_mm.tasks.detection.voc_metric import VOCDetectionMetric


def sample(found: list, true: list) -> dict:
    """What mmdet hands to a metric; ``true`` in VOCDataset's inclusive corners."""
    return dict(
        pred_instances=dict(
            bboxes=torch.tensor(found),
            scores=torch.ones(len(found)),
            labels=torch.zeros(len(found), dtype=torch.long),
        ),
        gt_instances=dict(
            bboxes=torch.tensor(true), labels=torch.zeros(len(true), dtype=torch.long)
        ),
        ignored_instances=dict(bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long)),
    )


def test_box_conventions() -> None:
    """Pixels 3 to 6 are the box 3, 6 with inclusive corners and 3, 7 as an extent."""
    for extents, far in ((False, 6.0), (True, 7.0)):
        metric = VOCDetectionMetric(extents=extents)
        metric.dataset_meta = dict(classes=('a',))
        metric.process({}, [sample([[3.0, 3.0, far, far]], [[3.0, 3.0, 6.0, 6.0]])])
        figures = metric.evaluate(size=1)
        assert figures['voc/AP'] == figures['voc/coco101_AP'] == 1.0


def test_table_is_logged_per_class(monkeypatch) -> None:
    lines = []
    metric = VOCDetectionMetric()
    metric.dataset_meta = dict(classes=('cat', 'dog'))
    monkeypatch.setattr(
        'ttl_mm.tasks.detection.voc_metric.MMLogger.get_current_instance',
        lambda: type('Log', (), {'info': staticmethod(lines.append)}),
    )
    metric.process({}, [sample([[3.0, 3.0, 6.0, 6.0]], [[3.0, 3.0, 6.0, 6.0]])])
    metric.evaluate(size=1)
    rows = [line.split() for line in lines[0].splitlines() if line]
    assert ['cat', '1', '1', '100.0', '100.0', '100.0', '100.0'] in rows
    assert ['dog', '0', '0', 'nan', 'nan', 'nan', 'nan'] in rows
    assert ['mean', '1', '1', '100.0', '100.0', '100.0', '100.0'] in rows
