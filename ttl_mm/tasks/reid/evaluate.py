"""From a checkpoint and a folder to rank-1 and mAP: ``ttl reid eval``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.dist import get_dist_info
from PIL.Image import Image

from ttl_mm.datasets.data_report import require_usable
from ttl_mm.errors import UserError
from ttl_mm.evaluation.feature_file import Features, is_feature_file, read_features
from ttl_mm.evaluation.features import extract_features, versions
from ttl_mm.evaluation.figures import write_json
from ttl_mm.evaluation.model import load_model
from ttl_mm.evaluation.retrieval import evaluate_retrieval
from ttl_mm.evaluation.run import Progress, join_group
from ttl_mm.outputs import check_folder, mark_folder
from ttl_mm.tasks.reid.check import check_reid
from ttl_mm.tasks.reid.datasets import ReIDTestSet, find_layout
from ttl_mm.tasks.reid.flip_features import FlipFeatures
from ttl_mm.tasks.reid.match_picture import best_matches, draw_matches
from ttl_mm.tasks.reid.names import require_names

HEIGHT, WIDTH = 256, 128  # of the network's input, as in the SYSU-30k release
PIPELINE = (
    dict(type='ttl_mm.LoadImage'),
    dict(
        type='mmpretrain.Resize', scale=(WIDTH, HEIGHT), interpolation='bicubic', backend='pillow'
    ),
    dict(type='mmpretrain.PackInputs'),
)
COMMAND = 'ttl reid eval'
FEATURES, PICTURE = 'reid.safetensors', 'matches.png'
FLIPS = {False: 'n(f + m)', True: 'n(n(f) + m), as released'}  # see combine_flip


def evaluate_reid(
    source: str,
    data: str | None = None,
    out: str | None = None,
    queries: Sequence[int] = (),
    device: str | None = None,
    overwrite: bool = False,
    **extraction: Any,
) -> list[dict] | None:
    """Extract features, rank the gallery, print the figures and write them with a picture.

    Writes ``reid.safetensors`` (features), ``figures.json`` and ``matches.png``. Under torchrun the
    processes share the extraction, and the first one does the rest.

    Args:
        source: A checkpoint that :func:`load_model` reads, or the feature file of an earlier call.
        data: SYSU-30k, Market-1501 or the like, see :func:`find_layout`. A feature file contains
            identities and cameras; it needs the images only for the picture.
        out: Folder of the files that are written.
        queries: Queries to show in the picture, counted from 0; eight, evenly spread, if empty.
        device: Where to compute; a GPU if there is one.
        overwrite: Whether files that another program wrote may be replaced.
        extraction: Of :func:`extract_sides`, for a checkpoint.

    Returns:
        The figures on the first process, None on the others.

    Raises:
        UserError: The data or the checkpoint cannot give a meaningful result.
    """
    if queries and data is None:
        raise UserError('--queries selects images of --data: name the folder with --data DIR.')
    join_group()
    folder = Path(out) if out else _default_folder(source, data)
    check_folder(folder, COMMAND, ('figures.json', PICTURE), overwrite)
    if is_feature_file(source):
        features = read_features(source)
    else:
        features = extract_sides(source, data, folder / FEATURES, device, **extraction)
    if get_dist_info()[0] != 0:
        return None
    sides = split_sides(features)
    best_device = 'cuda' if torch.cuda.is_available() else 'cpu'
    result = evaluate_retrieval(*sides, device=device or best_device)
    figures = describe(result, features)
    print(*(f'{figure["metric"]:18s}{figure["value"]:7.2f}' for figure in figures), sep='\n')
    print(f'queries with a match: {result["valid_queries"]}, without: {result["skipped_queries"]}')
    folder.mkdir(parents=True, exist_ok=True)
    mark_folder(folder, COMMAND)
    write_json(figures, folder / 'figures.json')
    written = ['figures.json']
    if data is not None:
        draw_best(sides, features.paths, find_layout(data).test, queries).save(folder / PICTURE)
        written.append(PICTURE)
    print(f'{", ".join(written)} in {folder}')
    return figures


def extract_sides(
    checkpoint: str,
    data: str | None,
    path: Path,
    device: str | None = None,
    config: str | None = None,
    reference_flip: bool = False,
    batch_size: int = 100,
    workers: int = 0,
) -> Features:
    """Check the data and write the features of queries and gallery to ``path``.

    Args:
        checkpoint: See :func:`load_model`.
        data: See :func:`find_layout`.
        path: The feature file; one of the same origin is opened as it is, or completed.
        device: Where to compute.
        config: Config of the model, if the shapes in the checkpoint do not determine it.
        reference_flip: See :func:`ttl_mm.tasks.reid.flip_features.combine_flip`.
        batch_size: Images per forward pass.
        workers: Processes that load images.
    """
    if data is None:
        raise UserError(f'{checkpoint} is a checkpoint: name the images with --data DIR.')
    report = check_reid(data, files=0)  # evaluation needs no training images
    if get_dist_info()[0] == 0:
        print(report, flush=True)
    require_usable([report], data)
    layout = find_layout(data)
    dataset = ReIDTestSet(str(layout.test), layout.query, layout.gallery, PIPELINE)
    backbone, preprocessor, about = load_model(checkpoint, config, device)
    about |= {
        'flip': FLIPS[reference_flip],
        'crop': f'{HEIGHT} x {WIDTH}, bicubic',
        'num_query': dataset.metainfo['num_query'],
    }
    model, progress = FlipFeatures(backbone, reference_flip), Progress('query and gallery')
    return extract_features(
        model, preprocessor, dataset, path, about, (4,), batch_size, workers, progress
    )


def split_sides(features: Features) -> tuple[np.ndarray, ...]:
    """Features, identities and cameras of the queries, then those of the gallery."""
    if 'num_query' not in features.about:
        raise UserError(
            'these features are not of queries and a gallery: extract them with `ttl reid eval`.'
        )
    ids, cams = require_names(features.paths, 'the feature file')
    n = features.about['num_query']
    arrays = features.features, ids, cams
    return *(array[:n] for array in arrays), *(array[n:] for array in arrays)


def describe(result: dict[str, float], features: Features) -> list[dict]:
    """Each figure with protocol, data, weights and versions."""
    about, metrics = features.about, dict(result)
    basis = {
        'protocol': 're-identification, cosine, junk left out, no fine-tuning',
        'queries': metrics.pop('valid_queries'),
        'skipped_queries': metrics.pop('skipped_queries'),
        'gallery': len(features.paths) - about['num_query'],
        **{key: about[key] for key in ('flip', 'crop')},
        **{key: about[key] for key in ('checkpoint', 'checkpoint_sha256') if key in about},
        'weights_sha256': about['weights'],
        'data_fingerprint': about['data'],
        'extracted_with': about['versions'],
        'measured_with': versions(),
    }
    return [{'metric': f'{name} (%)', 'value': value, **basis} for name, value in metrics.items()]


def draw_best(
    sides: tuple[np.ndarray, ...], paths: Sequence[str], root: Path, queries: Sequence[int] = ()
) -> Image:
    """The ten best matches of some queries, as a picture; of eight, evenly spread, by default.

    ``sides`` are those of :func:`split_sides`; ``paths`` are of all images below ``root``, queries
    first.
    """
    n = len(sides[0])
    if wrong := [q for q in queries if not 0 <= q < n]:
        raise UserError(f'queries {wrong} do not exist: the data has queries 0 to {n - 1}.')
    queries = list(queries) or np.unique(np.linspace(0, n - 1, 8).astype(int)).tolist()
    rankings = best_matches(*sides, queries=queries)
    return draw_matches(rankings, lambda q: root / paths[q], lambda g: root / paths[n + g])


def _default_folder(source: str, data: str | None) -> Path:
    if is_feature_file(source):
        return Path(source).parent
    name = Path(source.rpartition('://')[2]).stem
    return Path('work_dirs') / 'reid' / f'{name}_{Path(data or "").resolve().name}'
