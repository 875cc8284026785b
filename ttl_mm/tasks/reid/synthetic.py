"""A small synthetic re-identification dataset in the layout of SYSU-30k or Market-1501.

Every person is a drawn figure with its own colors. Cameras differ in light and background, images
in pose, size and noise. Matching across cameras is possible, but not trivial.
"""

import json
import os
from pathlib import Path

import cv2
import numpy as np

from ttl_mm.datasets.name_list import write_name_list
from ttl_mm.errors import UserError

HEIGHT, WIDTH = 144, 64


def make_split(
    root: str | os.PathLike,
    layout: str = 'sysu',
    train_people: int = 8,
    images_each: int = 6,
    test_people: int = 6,
    distractors: int = 20,
    seed: int = 0,
) -> None:
    """Write a training, a query and a gallery set below ``root``.

    Args:
        root: A folder to create.
        layout: ``sysu`` or ``market``.
        train_people: Identities of the training set.
        images_each: Images of each of them.
        test_people: Number of queries, each with matches in the gallery from other cameras.
        distractors: Number of gallery images that match no query.
        seed: Seed of all random choices.

    Raises:
        UserError: ``root`` is not empty.
    """
    root = Path(root)
    if root.exists() and any(root.iterdir()):
        raise UserError(f'{root} is not empty: name a new folder for the synthetic data.')
    make = {'sysu': _make_sysu, 'market': _make_market}[layout]
    make(root, train_people, images_each, test_people, distractors, seed)


def draw_person(person: int, camera: int, shot: int, seed: int = 0) -> np.ndarray:
    """One image, uint8 (HEIGHT, WIDTH, 3) BGR; the same arguments give the same pixels."""
    body = np.random.default_rng((seed, 0, person))
    skin, hair, shirt, trousers = body.integers(20, 236, (4, 3)).tolist()
    build = body.uniform(0.8, 1.2)
    view = np.random.default_rng((seed, 1, camera))
    light, tint = view.uniform(0.7, 1.2), view.uniform(0.85, 1.15, 3)
    rng = np.random.default_rng((seed, 2, person, camera, shot))
    image = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    image[:] = view.integers(60, 190, 3)
    image[HEIGHT * 3 // 4 :] = view.integers(40, 150, 3)

    scale, x = rng.uniform(0.85, 1.0), WIDTH // 2 + int(rng.integers(-6, 7))
    y = lambda share: int(HEIGHT * (0.05 + share * scale * 0.9))  # noqa: E731
    half = int(WIDTH * 0.22 * build * scale)
    stride = int(rng.integers(2, 10))
    for side in (-1, 1):
        foot, hip = (x + side * stride, y(1.0)), (x + side * half // 3, y(0.5))
        cv2.line(image, hip, foot, trousers, max(3, half // 2))
        arm = int(rng.integers(0, 8))
        cv2.line(image, (x + side * half, y(0.2)), (x + side * (half + arm), y(0.48)), shirt, 5)
    cv2.rectangle(image, (x - half, y(0.17)), (x + half, y(0.55)), shirt, -1)
    cv2.circle(image, (x, y(0.09)), int(HEIGHT * 0.065 * scale), skin, -1)
    cv2.ellipse(image, (x, y(0.06)), (int(8 * scale), int(7 * scale)), 0, 180, 360, hair, -1)
    noisy = image * light * tint + rng.normal(0, 6, image.shape)
    return noisy.clip(0, 255).astype(np.uint8)


def _make_sysu(root, train_people, images_each, test_people, distractors, seed) -> None:
    train, bags = [], []
    for person in range(1, train_people + 1):
        names = [f'{person:010d}/{person:010d}_{shot}.jpg' for shot in range(images_each)]
        for shot, name in enumerate(names):
            image = draw_person(person, 1 + shot % 2, shot, seed)
            _write(root / 'sysu_train_set_all' / name, image)
        bags.append({'BagLabel': [person], 'BagID': person, 'BagImages': names})
        train += names
    test = root / 'sysu_test_set_all'
    for person in range(train_people + 1, train_people + test_people + 1):
        folder = f'{person:09d}'
        _write(test / f'query/{folder}/{folder}_c2_2.jpg', draw_person(person, 2, 0, seed))
        _write(test / f'gallery/{folder}/{folder}_c1_1.jpg', draw_person(person, 1, 0, seed))
    for n in range(1, distractors + 1):
        stranger = draw_person(1_000_000 + n, 1, 0, seed)
        _write(test / f'gallery/0000others/0000others_c1_{n}.jpg', stranger)
    (root / 'meta').mkdir(exist_ok=True)
    write_name_list(root / 'meta/train.txt', train)
    (root / 'meta/bag_level_label.json').write_text(json.dumps(bags))


def _make_market(root, train_people, images_each, test_people, distractors, seed) -> None:
    def add(folder: str, person: int, camera: int, shot: int, label: str | None = None) -> None:
        name = f'{label or f"{person:04d}"}_c{camera}s1_{shot:06d}_01.jpg'
        _write(root / folder / name, draw_person(person, camera, shot, seed))

    for person in range(1, train_people + 1):
        for shot in range(images_each):
            add('bounding_box_train', person, 1 + shot % 6, shot)
    for person in range(train_people + 1, train_people + test_people + 1):
        add('query', person, 1, 0)
        for camera in (1, 2, 3):  # the first is junk for the query: same camera
            add('bounding_box_test', person, camera, 1)
    for n in range(1, distractors + 1):
        add('bounding_box_test', 1_000_000 + n, 1 + n % 6, n, label='-1' if n % 4 == 0 else '0000')


def _write(path: Path, image: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(cv2.imencode('.jpg', image)[1].tobytes())
