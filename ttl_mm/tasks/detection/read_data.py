"""Boxes of COCO json, VOC folders or YOLO text files, read where they lie."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ttl_mm.datasets.data_report import DataReport, require_usable
from ttl_mm.datasets.decode import BadImageError, open_image
from ttl_mm.errors import UserError
from ttl_mm.files.image_header import EXTENSIONS
from ttl_mm.files.plain_json import read_json
from ttl_mm.files.regular import ANNOTATIONS, TEXT, is_regular, read_text
from ttl_mm.finetuning.hold_out import HOW, hold_out
from ttl_mm.tasks.detection.annotated import (
    Annotated,
    Boxes,
    Thing,
    check_boxes,
    choose_classes,
)
from ttl_mm.tasks.detection.checks import check_coco, check_voc_names, read_voc
from ttl_mm.tasks.detection.yolo_names import yolo_names

VAL_WORDS = ('val', 'valid', 'validation', 'test')
# what comes of values of other kinds than a format has
_MALFORMED = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
LAYOUTS = (
    'a COCO json, or a folder with annotations/*.json; a folder with JPEGImages and Annotations; '
    'or a folder with images and labels'
)


def read_data(
    data: str | Path, classes: Sequence[str] | None = None, say: Callable[[str], None] = print
) -> Boxes:
    """Read and check a dataset; every problem is named before the first step.

    Args:
        data: :data:`LAYOUTS`.
        classes: The classes to learn; all by default.
        say: Receives the report.

    Raises:
        UserError: The layout is not known, or the data cannot be used.
    """
    root = Path(data)
    found = _open(root)
    require_usable_said(found.reports, root, say)
    choose_classes(found, classes)
    require_usable_said([check_boxes(found)], root, say)
    return found


def require_usable_said(reports: list[DataReport], root: Path, say: Callable[[str], None]) -> None:
    """Tell what was found, then raise if it cannot be used."""
    for report in reports:
        say(str(report))
    require_usable(reports, str(root))


def _open(root: Path) -> Boxes:
    if root.is_file() and root.suffix == '.json':
        return _split(*_read_coco([root]), 'COCO')
    if jsons := _coco_files(root):
        return _read_coco_splits(jsons)
    if voc := _voc_folders(root):
        return _read_voc(voc)
    if parts := _yolo_parts(root):
        return _read_yolo(root, parts)
    raise UserError(f'{root} is no dataset that is known here: name {LAYOUTS}.')


def _split(
    images: list[Annotated], reports: list[DataReport], listed: list[str], kind: str
) -> Boxes:
    """Hold out some images, where nothing says which are for validation."""
    if not all(report.usable for report in reports):
        return Boxes(kind, images, [], '', reports)
    train, val = hold_out(images)
    return Boxes(kind, train, val, HOW, reports, listed=tuple(listed))


# --- COCO -------------------------------------------------------------------------------------


def _coco_files(root: Path) -> list[Path]:
    places = [root / 'annotations', root, *(root / n for n in ('train', *VAL_WORDS))]
    found = [path for place in places if place.is_dir() for path in sorted(place.glob('*.json'))]
    objects = [p for p in found if not p.name.startswith(('captions_', 'person_keypoints_'))]
    return objects if any(p.parent.name == 'annotations' for p in objects) or any(
        p.name.startswith(('instances', '_annotations.coco')) for p in objects
    ) else []  # fmt: skip


def _is_val(path: Path) -> bool:
    name = f'{path.parent.name} {path.stem}'.lower()
    return any(word in name for word in VAL_WORDS) and 'train' not in name


def _read_coco_splits(files: list[Path]) -> Boxes:
    train, val = ([p for p in files if _is_val(p) == wanted] for wanted in (False, True))
    if not train or not val:
        return _split(*_read_coco(files), 'COCO')
    first, second = _read_coco(train), _read_coco(val)
    how = ', '.join(path.name for path in val)
    listed = list(dict.fromkeys(first[2] + second[2]))
    return Boxes('COCO', first[0], second[0], how, first[1] + second[1], listed=tuple(listed))


def _read_coco(files: list[Path]) -> tuple[list[Annotated], list[DataReport], list[str]]:
    images: list[Annotated] = []
    reports, listed = [], []
    for path in files:
        try:
            content = read_json(path, ANNOTATIONS)
            names = [str(category['name']) for category in content['categories']]
            folder = _image_folder(path, str(content['images'][0]['file_name']))
            reports.append(check_coco(path, folder, names))
            if reports[-1].usable:
                images += _coco_images(content, folder)
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            ArithmeticError,
        ) as error:
            raise UserError(
                f'{path} is not a COCO annotation file ({type(error).__name__}: {error}): check '
                'the path.'
            ) from error
        listed += [name for name in names if name not in listed]
    return images, reports, listed


def _image_folder(path: Path, name: str) -> Path:
    """The folder of images that belongs to an annotation file, by its first image."""
    above = path.parent.parent
    stem = path.stem.removeprefix('instances_')
    places = [path.parent, path.parent / 'images', above / stem, above / 'images' / stem,
              above / 'images', above]  # fmt: skip
    return next((place for place in places if is_regular(place / name)), path.parent)


def _coco_images(content: dict, folder: Path) -> Iterator[Annotated]:
    names = {category['id']: category['name'] for category in content['categories']}
    things: dict[int, list[Thing]] = {}
    for entry in content['annotations']:
        x, y, width, height = map(float, entry['bbox'])
        if min(width, height) < 1 or entry.get('area', 1) <= 0:
            continue  # a note of the check, and mmdet leaves it out as well
        box = (x, y, x + width, y + height)
        crowd = bool(entry.get('iscrowd'))
        thing = Thing(
            names[entry['category_id']], box, entry.get('segmentation') or None, crowd=crowd
        )
        things.setdefault(entry['image_id'], []).append(thing)
    for image in content['images']:
        width, height = (int(image[side]) for side in ('width', 'height'))
        objects = tuple(things.get(image['id'], ()))
        yield Annotated(folder / image['file_name'], width, height, objects)


# --- VOC --------------------------------------------------------------------------------------


def _voc_folders(root: Path) -> list[Path]:
    places = [root, *sorted(path for path in root.glob('*') if path.is_dir())]
    return [p for p in places if (p / 'JPEGImages').is_dir() and (p / 'Annotations').is_dir()]


def _read_voc(folders: list[Path]) -> Boxes:
    splits: dict[str, list[Annotated]] = {'train': [], 'val': []}
    reports, listed = [], False
    for folder in folders:
        for split, names in _voc_lists(folder).items():
            listed = listed or split == 'val'
            title = f'{folder.name}, {split}'
            reports.append(check_voc_names(folder, names, None, title))
            if reports[-1].usable:
                splits[split] += [_voc_image(folder, name) for name in dict.fromkeys(names)]
    if not listed:
        return _split(splits['train'], reports, [], 'VOC')
    return Boxes('VOC', splits['train'], splits['val'], 'lists in ImageSets/Main', reports)


def _voc_lists(folder: Path) -> dict[str, list[str]]:
    """Names of images by split; those that both lists of a split have come once."""
    main = folder / 'ImageSets' / 'Main'
    train = next((p for n in ('trainval', 'train') if (p := main / f'{n}.txt').is_file()), None)
    names = ('test', 'val') if train is not None and train.stem == 'trainval' else ('val', 'test')
    val = next((p for n in names if (p := main / f'{n}.txt').is_file()), None)
    if train is None or (val is not None and val.stem == 'val' and train.stem == 'trainval'):
        train = p if (p := main / 'train.txt').is_file() else train
    if train is None:
        files = [*(folder / 'JPEGImages').iterdir(), *(folder / 'Annotations').iterdir()]
        return {'train': sorted({f.stem for f in files if f.suffix in ('.jpg', '.xml')})}
    lists = {'train': train} | ({'val': val} if val is not None else {})
    return {split: read_text(path, ANNOTATIONS).split() for split, path in lists.items()}


def _voc_image(folder: Path, name: str) -> Annotated:
    """Corners of VOC count from 1 and are inclusive: as extents they begin one pixel earlier."""
    size, objects = read_voc(folder / 'Annotations' / f'{name}.xml')
    path = folder / 'JPEGImages' / f'{name}.jpg'
    things = []
    for kind, (x1, y1, x2, y2), hard in objects:
        things.append(Thing(kind, (x1 - 1, y1 - 1, x2, y2), hard=hard))
    width, height = size or _size_of(path)
    return Annotated(path, width, height, tuple(things))


# --- YOLO -------------------------------------------------------------------------------------


def _yolo_parts(root: Path) -> dict[str, tuple[Path, Path]]:
    """Folders of images and of labels by split; one split where they are not split."""
    parts = {}
    for name in ('train', *VAL_WORDS):
        for images, labels in (
            (root / 'images' / name, root / 'labels' / name),
            (root / name / 'images', root / name / 'labels'),
        ):
            if images.is_dir() and labels.is_dir():
                parts['train' if name == 'train' else 'val'] = (images, labels)
                break
        if 'val' in parts:
            break
    if 'train' not in parts and (root / 'images').is_dir() and (root / 'labels').is_dir():
        return {'train': (root / 'images', root / 'labels')}
    return parts


def _read_yolo(root: Path, parts: dict[str, tuple[Path, Path]]) -> Boxes:
    names = yolo_names(root)
    found, reports = {}, []
    for split, (images, labels) in parts.items():
        report = DataReport()
        found[split] = list(_yolo_images(images, labels, names, report))
        report.counts[str(images)] = f'images: {len(found[split]):,}'
        reports.append(report)
    if 'val' not in found:
        return _split(found['train'], reports, list(names), 'YOLO')
    how = f'the folder {parts["val"][0]}'
    return Boxes('YOLO', found['train'], found['val'], how, reports, listed=tuple(names))


def _yolo_images(
    images: Path, labels: Path, names: Sequence[str], report: DataReport
) -> Iterator[Annotated]:
    files = {path.stem: path for path in sorted(images.iterdir()) if _is_image(path)}
    texts = {path.stem: path for path in sorted(labels.glob('*.txt')) if path.stem != 'classes'}
    for stem in sorted(texts.keys() - files.keys()):
        report.errors['annotation without an image'].append(texts[stem].name)
    for stem, path in files.items():
        try:
            width, height = _size_of(path)
        except UserError as error:
            report.errors['unreadable image file'].append(str(error))
            continue
        things = []
        if stem in texts:
            for number, line in enumerate(read_text(texts[stem], TEXT).splitlines(), 1):
                where = f'{texts[stem].name}:{number}'
                if line.strip() and (
                    thing := _yolo_thing(line, names, width, height, where, report)
                ):
                    things.append(thing)
        if not things:
            report.notes['image without objects'].append(path.name)
        yield Annotated(path, width, height, tuple(things))


def _yolo_thing(
    line: str, names: Sequence[str], width: int, height: int, where: str, report: DataReport
) -> Thing | None:
    """``CLASS CX CY W H`` or ``CLASS X Y X Y ...``, in shares of the image."""
    try:
        first, *rest = line.split()
        label, values = int(first), [float(value) for value in rest]
        if len(values) < 4 or len(values) % 2:
            raise ValueError(f'it has {len(values)} coordinates')
    except ValueError as error:
        report.errors['line that is no box'].append(f'{where} ({error})')
        return None
    if not 0 <= label < len(names):
        report.errors['class that has no name'].append(f'{where} ({label} of {len(names)})')
        return None
    scaled = [value * (height if i % 2 else width) for i, value in enumerate(values)]
    if len(values) == 4:
        x, y, w, h = scaled
        return Thing(names[label], (x - w / 2, y - h / 2, x + w / 2, y + h / 2))
    xs, ys = scaled[::2], scaled[1::2]
    return Thing(names[label], (min(xs), min(ys), max(xs), max(ys)), [scaled])


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in EXTENSIONS


def _size_of(path: Path) -> tuple[int, int]:
    try:
        image = open_image(path)
        return image.width, image.height
    except BadImageError as error:
        raise UserError(f'{error}') from error
