"""Average precision against hand-computed values, mmdet's evaluation and pycocotools."""

import contextlib
import io

import numpy as np
import pytest

from ttl_mm.errors import UserError
from ttl_mm.tasks.detection import voc_ap
from ttl_mm.tasks.detection.voc_ap import ImageResult, evaluate_class, evaluate_voc


def image(boxes, scores, true_boxes, difficult=False, labels=0, true_labels=0) -> ImageResult:
    return ImageResult(
        np.reshape(boxes, (-1, 4)).astype(float),
        np.array(scores, dtype=float),
        np.broadcast_to(labels, len(scores)),
        np.reshape(true_boxes, (-1, 4)).astype(float),
        np.broadcast_to(true_labels, len(true_boxes)),
        np.broadcast_to(difficult, len(true_boxes)),
    )


def random_images(seed: int, with_difficult: bool, n_classes: int = 3) -> list[ImageResult]:
    """Detections scattered around objects that overlap each other."""
    rng = np.random.default_rng(seed)
    images = []
    for _ in range(12):
        g = rng.integers(0, 6)
        corner = rng.integers(0, 60, (g, 2))
        true = np.concatenate([corner, corner + rng.integers(25, 60, (g, 2))], axis=1)
        around = np.repeat(true, 4, axis=0) + rng.normal(0, 4, (4 * g, 4))
        true_labels = rng.integers(0, n_classes, g)
        labels = rng.integers(0, n_classes, 4 * g + 2)
        labels[:-2] = np.where(rng.random(4 * g) < 0.8, np.repeat(true_labels, 4), labels[:-2])
        boxes = np.concatenate([around, [[0, 0, 30, 30], [50, 50, 90, 99]]])  # two stray ones
        scores = rng.permutation(4 * g + 2) / 50 + rng.random() / 100
        difficult = (rng.random(g) < 0.3) & with_difficult
        images.append(image(boxes, scores, true, difficult, labels, true_labels))
    return images


# Two objects that count and a difficult one. Detections by falling score: IoU 0.8 with object 1;
# on the difficult object; on nothing; a second one on object 1 (IoU 1); IoU 0.6 with object 2.
TRUE = [[0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]]
DIFFICULT = [False, False, True]
FOUND = [[0, 0, 10, 8], [40, 0, 50, 9], [70, 70, 80, 80], [0, 0, 10, 10], [20, 0, 30, 6]]
SCORES = [0.9, 0.8, 0.7, 0.6, 0.5]


def test_worked_example() -> None:
    result = evaluate_class([image(FOUND, SCORES, TRUE, DIFFICULT)], label=0)
    assert (result.objects, result.detections) == (2, 5)
    # IoU up to 0.6, both protocols: right, -, wrong, wrong, right. Precision 1 up to recall 1/2,
    # then 2/4: at 6 of 11 points and at 51 of 101 it is 1.
    early_voc, early_coco = (6 * 1 + 5 * 0.5) / 11, (51 * 1 + 50 * 0.5) / 101
    # 0.65 to 0.8: the last one is wrong, and recall stays at 1/2
    middle_voc, middle_coco = 6 / 11, 51 / 101
    # 0.85 and 0.9: the first one is wrong too. The difficult one (IoU 0.9) still does not count,
    # so precision is 1/3 at recall 1/2: wrong, wrong, right, wrong.
    late_voc, late_coco = 6 / 33, 51 / 303
    # 0.95: the difficult object is missed by the second detection, which is then wrong: 1/4
    last_voc, last_coco = 6 / 44, 51 / 404
    voc = [early_voc] * 3 + [middle_voc] * 4 + [late_voc] * 2 + [last_voc]
    coco = [early_coco] * 3 + [middle_coco] * 4 + [late_coco] * 2 + [last_coco]
    np.testing.assert_allclose(result.voc, voc, rtol=1e-12)
    np.testing.assert_allclose(result.coco, coco, rtol=1e-12)

    figures, per_class = evaluate_voc([image(FOUND, SCORES, TRUE, DIFFICULT)], ['a', 'absent'])
    assert figures['AP50'] == pytest.approx(8.5 / 11)
    assert figures['AP75'] == pytest.approx(6 / 11)
    assert figures['AP'] == pytest.approx((3 * 8.5 + 4 * 6 + 2 * 2 + 1.5) / 110)
    assert figures['coco101_AP50'] == pytest.approx(76 / 101)
    assert per_class['absent'].objects == 0


def test_figures_equal_mmdet_and_pycocotools() -> None:
    for seed in range(4):
        images = random_images(seed, with_difficult=True)
        ours = np.array([evaluate_class(images, label).voc for label in range(3)])  # (C, T)
        for t in (0, 5, 9):
            expected = mmdet_map(images, voc_ap.IOU_THRESHOLDS[t])
            assert ours[:, t].mean() == pytest.approx(expected, abs=1e-6)

        images = random_images(seed, with_difficult=False)
        figures, _ = evaluate_voc(images, ['a', 'b', 'c'])
        ours = [figures[f'coco101_{name}'] for name in ('AP', 'AP50', 'AP75')]
        np.testing.assert_allclose(ours, pycocotools_ap(images), atol=1e-9)


def mmdet_map(images: list[ImageResult], threshold: float) -> float:
    from mmdet.evaluation import eval_map

    inclusive = np.array([0, 0, 1, 1])
    rows = [np.hstack([i.boxes - inclusive, i.scores[:, None]]) for i in images]
    detections = [[r[i.labels == label] for label in range(3)] for r, i in zip(rows, images)]
    annotations = [
        dict(
            bboxes=i.true_boxes[~i.difficult] - inclusive,
            labels=i.true_labels[~i.difficult],
            bboxes_ignore=i.true_boxes[i.difficult] - inclusive,
            labels_ignore=i.true_labels[i.difficult],
        )
        for i in images
    ]
    return eval_map(
        detections, annotations, iou_thr=threshold, dataset='voc', logger='silent',
        eval_mode='11points', use_legacy_coordinate=True, nproc=1,
    )[0]  # fmt: skip


def pycocotools_ap(images: list[ImageResult]) -> np.ndarray:
    """AP, AP50 and AP75."""
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    def place(i, box, label) -> dict:
        return dict(image_id=i, category_id=int(label), bbox=[*box[:2], *(box[2:] - box[:2])])

    truth, found, known = COCO(), [], []
    for i, content in enumerate(images):
        for box, label in zip(content.true_boxes, content.true_labels):
            entry = dict(id=len(known) + 1, area=np.prod(box[2:] - box[:2]), iscrowd=0)
            known.append(place(i, box, label) | entry)
        for box, score, label in zip(content.boxes, content.scores, content.labels):
            found.append(place(i, box, label) | dict(score=float(score)))
    numbers = dict(images=range(len(images)), categories=range(3))
    truth.dataset = {key: [dict(id=i) for i in ids] for key, ids in numbers.items()}
    truth.dataset['annotations'] = known
    with contextlib.redirect_stdout(io.StringIO()):
        truth.createIndex()
        judge = COCOeval(truth, truth.loadRes(found), 'bbox')
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return judge.stats[:3]


def test_protocols_differ_where_two_objects_overlap() -> None:
    """Both detections overlap object 1 most; the second also fits object 2."""
    iou = np.array([[0.9, 0.1], [0.8, 0.7]])
    for match, second in ((voc_ap.match_voc, False), (voc_ap.match_coco, True)):
        right, _ = match(iou, np.array([False, False]), [0.5])
        assert right.tolist() == [[True, second]]
        # while a difficult object takes any number of detections
        right, ignored = match(np.array([[0.9], [0.8], [0.4]]), np.array([True]), [0.5])
        assert not right.any()
        assert ignored.tolist() == [[True, True, False]]


def test_ap_against_the_definition() -> None:
    """The mean over the points of the best precision at that recall or above, by plain loops."""
    right = np.array([1, 0, 1, 1, 0, 0, 1], dtype=bool)
    for recalls in (voc_ap.VOC_RECALLS, voc_ap.COCO_RECALLS):
        expected = 0.0
        for point in recalls:
            reached = [right[:n].mean() for n in range(1, 8) if right[:n].sum() / 6 >= point]
            expected += max(reached, default=0.0) / len(recalls)
        assert voc_ap.interpolated_ap(right, 6, recalls) == pytest.approx(expected)


def test_iou_is_plain_geometry() -> None:
    found = voc_ap.box_iou(np.array([[0.0, 0, 4, 4]]), np.array([[2.0, 0, 6, 4], [9, 9, 9, 9]]))
    np.testing.assert_allclose(found, [[8 / 24, 0]])


def test_threshold_names_are_exact() -> None:
    """int(100 * t) of computed thresholds gives 89 for 0.9, and 'AP75' may be missing."""
    assert [round(100 * t) for t in voc_ap.IOU_THRESHOLDS] == list(range(50, 100, 5))
    assert all(t == float(f'0.{round(100 * t)}') for t in voc_ap.IOU_THRESHOLDS)


def test_no_object_to_find_is_an_error() -> None:
    with pytest.raises(UserError, match='have no object to find'):
        evaluate_voc([image(FOUND, SCORES, TRUE, difficult=True)], ['a'])
