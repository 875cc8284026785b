"""What ``ttl segment run`` does: a mask for every image, and pictures."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from ttl_mm.datasets.decode import decode_image
from ttl_mm.finetuning.job import Say
from ttl_mm.finetuning.use import readable
from ttl_mm.outputs import claim_folder
from ttl_mm.planning.image_sources import find_images
from ttl_mm.tasks.segmentation.masked import colored, write_mask
from ttl_mm.tasks.segmentation.segmenter import Segmenter

COMMAND = 'ttl segment run'


def run_segmenter(
    images: Sequence[str | Path], weights: str, out: str | Path = 'masks', pictures: int = 50,
    device: str | None = None, overwrite: bool = False, say: Say = print,
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
    folder = claim_folder(out, COMMAND, overwrite)
    for part in ('masks', 'pictures'):
        (folder / part).mkdir(exist_ok=True)
    done = 0
    results = segmenter.find([found.root / name for name in found.names()])
    for place, mask in readable(found, results, say):
        image = decode_image(place.path)
        mask = cv2.resize(mask, image.shape[1::-1], interpolation=cv2.INTER_NEAREST)
        write_mask(mask, folder / 'masks' / f'{place.stem}.png')
        if done < pictures:
            mixed = (image[..., ::-1] // 2 + colored(mask) // 2).astype(np.uint8)
            Image.fromarray(mixed).save(folder / 'pictures' / f'{place.stem}.png')
        done += 1
    (folder / 'classes.txt').write_text('\n'.join(segmenter.classes) + '\n')
    say(f'{done} masks in {folder / "masks"}, whose values are the lines of classes.txt, from 0 on')
    return folder
