"""What ``ttl detect run`` does: boxes as COCO json, and pictures."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image

from ttl_mm.datasets.decode import decode_image, open_image
from ttl_mm.errors import counted
from ttl_mm.outputs import claim_folder
from ttl_mm.planning.image_sources import find_images
from ttl_mm.tasks.detection.coco_file import found_as_coco, write_json
from ttl_mm.tasks.detection.detector import Detector, Found
from ttl_mm.tasks.detection.draw_boxes import draw_boxes
from ttl_mm.tasks.detection.page import found_labels
from ttl_mm.tasks.detection.requirements import require_detection

COMMAND = 'ttl detect run'


def run_detector(
    images: Sequence[str | Path], weights: str, out: str | Path = 'detections', score: float = 0.3,
    pictures: int = 50, device: str | None = None, overwrite: bool = False,
    say: Callable[[str], None] = print,
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
    names = list(found.names())
    detector = Detector(weights, device)
    folder = claim_folder(out, COMMAND, overwrite)
    (folder / 'pictures').mkdir(exist_ok=True)
    kept: list[tuple[str, tuple[int, int], Found]] = []
    broken = []
    for name, result in zip(names, detector.find([found.root / name for name in names])):
        if result is None:
            broken.append(name)
            continue
        said, path = result.above(score), found.root / name
        size = open_image(path)
        kept.append((name, (size.width, size.height), said))
        if len(kept) <= pictures:
            pixels = decode_image(str(path))[..., ::-1]  # to RGB
            picture = draw_boxes(pixels, found_labels(said, detector.classes))
            stem = name.replace('/', '_').rpartition('.')[0]
            Image.fromarray(picture).save(folder / 'pictures' / f'{stem}.png')
    said_of = [list(column) for column in zip(*kept)] or [[], [], []]
    path = folder / 'detections.json'
    write_json(found_as_coco(said_of[0], said_of[1], said_of[2], detector.classes), path)
    if broken:
        left_out = counted(len(broken), 'image')
        say(f'left out {left_out} that cannot be read: {", ".join(broken[:3])}')
    counts = Counter(int(label) for _, _, said in kept for label in said.labels)
    for number, count in counts.most_common():
        say(f'{count:8,}  {detector.classes[number]}')
    say(f'{path}\n{folder / "pictures"}')
    return path
