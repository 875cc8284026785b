"""What ``ttl detect run`` does: boxes as COCO json, and pictures."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from ttl_mm.datasets.decode import decode_image, open_image
from ttl_mm.finetuning.job import Say
from ttl_mm.finetuning.use import readable
from ttl_mm.outputs import claim_folder, write_json
from ttl_mm.planning.image_sources import find_images
from ttl_mm.tasks.detection.coco_file import found_as_coco
from ttl_mm.tasks.detection.detector import Detector, Found
from ttl_mm.tasks.detection.draw_boxes import draw_boxes
from ttl_mm.tasks.detection.page import found_labels
from ttl_mm.tasks.detection.requirements import require_detection

COMMAND = 'ttl detect run'


def run_detector(
    images: Sequence[str | Path], weights: str, out: str | Path = 'detections', score: float = 0.3,
    pictures: int = 50, device: str | None = None, overwrite: bool = False,
    say: Say = print,
) -> Path:  # fmt: skip
    """Find objects in images; write ``detections.json`` and pictures of the first images.

    Args:
        images: Folders of any depth, or lists of files.
        weights: ``detector.pth`` of ``ttl detect train``.
        out: A folder.
        score: Boxes with a lower one are left out.
        pictures: How many images to draw.
        device: Where to compute.
        overwrite: Whether files of others in the folder may be replaced.
        say: Receives the lines for the user.

    Raises:
        UserError: The weights are no detector, or there are no images.
    """
    require_detection()
    found = find_images(images)
    detector = Detector(weights, device)
    folder = claim_folder(out, COMMAND, overwrite)
    (folder / 'pictures').mkdir(exist_ok=True)
    kept: list[tuple[str, tuple[int, int], Found]] = []
    paths = [found.root / name for name in found.names()]
    for place, result in readable(found, detector.find(paths), say):
        said, size = result.above(score), open_image(place.path)
        kept.append((place.name, (size.width, size.height), said))
        if len(kept) <= pictures:
            pixels = decode_image(str(place.path))[..., ::-1]  # to RGB
            picture = draw_boxes(pixels, found_labels(said, detector.classes))
            Image.fromarray(picture).save(folder / 'pictures' / f'{place.stem}.png')
    said_of = [list(column) for column in zip(*kept)] or [[], [], []]
    path = folder / 'detections.json'
    write_json(found_as_coco(said_of[0], said_of[1], said_of[2], detector.classes), path)
    counts = Counter(int(label) for _, _, said in kept for label in said.labels)
    for number, count in counts.most_common():
        say(f'{count:8,}  {detector.classes[number]}')
    say(f'{path}\n{folder / "pictures"}')
    return path
