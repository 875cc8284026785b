"""From a checkpoint and a folder to rank-1: what ``ttl eval --reid`` does."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dist import get_dist_info
from mmengine.registry import DefaultScope

from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import Features, is_feature_file, read_features
from ttl_mm.evaluation.features import extract_features, versions
from ttl_mm.evaluation.figures import write_json
from ttl_mm.evaluation.model import load_model
from ttl_mm.evaluation.retrieval import evaluate_retrieval
from ttl_mm.evaluation.run import Progress, join_group
from ttl_mm.registry import DATASETS
from ttl_mm.tasks.reid.check import check_reid
from ttl_mm.tasks.reid.datasets import ReIDTestSet, find_layout
from ttl_mm.tasks.reid.flip_features import FlipFeatures
from ttl_mm.tasks.reid.match_picture import best_matches, draw_matches
from ttl_mm.tasks.reid.names import parse_names

CONFIG = Path(__file__).with_name('reid_config.py')
FEATURES, PICTURE = 'reid.safetensors', 'matches.png'
FLIPS = {False: 'n(f + m)', True: 'n(n(f) + m), as released'}


def evaluate_reid(
    source: str,
    data: str | None = None,
    out: str | None = None,
    *,
    reference_flip: bool = False,
    queries: Sequence[int] = (),
    config: str | None = None,
    device: str | None = None,
    batch_size: int = 100,
    workers: int = 0,
) -> list[dict] | None:
    """Extract if need be, rank, print, and write ``figures.json`` and a picture of matches.

    Args:
        source: A checkpoint that :func:`load_model` reads, or the feature file of an earlier call.
        data: SYSU-30k, Market-1501 or the like, see :func:`find_layout`. A feature file knows its
            identities and cameras; it needs the images for the picture alone.
        out: The folder for all files.
        reference_flip: See :func:`ttl_mm.tasks.reid.flip_features.combine_flip`.
        queries: The queries of the picture, counted from 0; eight, evenly spread, if empty.
        config: The config of the model, if its shapes do not tell.
        device: Where to compute; a GPU if there is one.
        batch_size: Images at once.
        workers: Processes that read images.

    Returns:
        The figures on the first process, None on the others.

    Raises:
        UserError: The data or the checkpoint cannot give a meaningful result.
    """
    if queries and data is None:
        raise UserError('the picture of matches shows images: name them with --data DIR.')
    folder = Path(out) if out else _default_folder(source, data)
    if is_feature_file(source):
        features = read_features(source)
    else:
        features = _extract(
            source, data, folder, reference_flip, config, device, batch_size, workers
        )
    if get_dist_info()[0] != 0:
        return None
    sides = split_sides(features)
    result = evaluate_retrieval(*sides, device=device or _best_device())
    figures = describe(result, features)
    print(*(f'{figure["metric"]:18s}{figure["value"]:7.2f}' for figure in figures), sep='\n')
    print(f'{result["valid_queries"]} queries, {result["skipped_queries"]} without a match skipped')
    folder.mkdir(parents=True, exist_ok=True)
    write_json(figures, folder / 'figures.json')
    written = ['figures.json']
    if data is not None:
        draw_best(sides, features.paths, find_layout(data).test, queries).save(folder / PICTURE)
        written.append(PICTURE)
    print(f'{", ".join(written)} in {folder}')
    return figures


def _extract(
    checkpoint, data, folder: Path, reference_flip, config, device, batch_size, workers
) -> Features:
    if data is None:
        raise UserError(f'{checkpoint} is a checkpoint: name the images with --data DIR.')
    join_group()
    report = check_reid(data, files=0)  # training images may be elsewhere by now
    if get_dist_info()[0] == 0:
        print(report, flush=True)
    if not report.usable:
        raise UserError(f'{data} gives no meaningful figures: mend what is above.')
    dataset = open_test_set(data)
    backbone, preprocessor, about = load_model(checkpoint, config, device)
    about |= {
        'flip': FLIPS[reference_flip],
        'crop': '256 x 128, bicubic',
        'num_query': dataset.metainfo['num_query'],
    }
    return extract_features(
        FlipFeatures(backbone, reference_flip),
        preprocessor,
        dataset,
        folder / FEATURES,
        about,
        batch_size=batch_size,
        num_workers=workers,
        progress=Progress('query and gallery'),
    )


def open_test_set(data: str) -> ReIDTestSet:
    """The query and gallery images of ``data``, brought to the size of the protocol."""
    layout = find_layout(data)
    dataset = Config.fromfile(CONFIG).test_dataloader.dataset
    dataset.update(data_root=str(layout.test), query=layout.query, gallery=layout.gallery)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        return DATASETS.build(dataset)


def split_sides(features: Features) -> tuple[np.ndarray, ...]:
    """Features, identities and cameras of the queries, then those of the gallery."""
    if 'num_query' not in features.about:
        raise UserError('these features are not of queries and a gallery: extract with --reid.')
    ids, cams = parse_names(features.paths, 'the feature file')
    n = features.about['num_query']
    arrays = features.features, ids, cams
    return *(array[:n] for array in arrays), *(array[n:] for array in arrays)


def describe(result: dict[str, float], features: Features) -> list[dict]:
    """Each figure with what it rests on."""
    about = features.about
    origin = {key: about[key] for key in ('checkpoint', 'checkpoint_sha256') if key in about}
    basis = {
        'flip': about['flip'],
        'crop': about['crop'],
        'queries': result['valid_queries'],
        'skipped_queries': result['skipped_queries'],
        'gallery': len(features.paths) - about['num_query'],
        **origin,
        'weights_sha256': about['weights'],
        'data_fingerprint': about['data'],
        'extracted_with': about['versions'],
        'measured_with': versions(),
    }
    counts = 'valid_queries', 'skipped_queries'
    protocol = 're-identification, cosine, junk left out, no fine-tuning'
    return [
        {'protocol': protocol, 'metric': f'{name} (%)', 'value': value, **basis}
        for name, value in result.items()
        if name not in counts
    ]


def draw_best(sides, paths: Sequence[str], root: Path, queries: Sequence[int] = ()):
    """The ten best matches of some queries, as a picture.

    Args:
        sides: Of :func:`split_sides`.
        paths: Of all images below ``root``, queries first.
        root: The folder of the test set.
        queries: Which; eight of them, evenly spread, if empty.
    """
    n = len(sides[0])
    if wrong := [q for q in queries if not 0 <= q < n]:
        raise UserError(f'queries {wrong} were asked for: there are the queries 0 to {n - 1}.')
    queries = list(queries) or np.unique(np.linspace(0, n - 1, 8).astype(int)).tolist()
    rankings = best_matches(*sides, queries)
    return draw_matches(rankings, lambda q: root / paths[q], lambda g: root / paths[n + g])


def _default_folder(source: str, data: str | None) -> Path:
    if is_feature_file(source):
        return Path(source).parent
    name = Path(source.rpartition('://')[2]).stem
    return Path('work_dirs') / 'reid' / f'{name}_{Path(data or "").resolve().name}'


def _best_device() -> str:
    return 'cuda' if torch.cuda.is_available() else 'cpu'
