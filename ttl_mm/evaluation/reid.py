"""From a checkpoint and a folder to rank-1: what ``ttl eval --reid`` does."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from mmengine.config import Config
from mmengine.logging import print_log
from mmengine.registry import RUNNERS

from ttl_mm.datasets.reid import ReIDTestSet, find_layout
from ttl_mm.datasets.reid_check import check_reid
from ttl_mm.engine.train_state import bare
from ttl_mm.errors import UserError
from ttl_mm.evaluation.match_picture import best_matches, draw_matches
from ttl_mm.zoo.layouts import architecture, backbone_config
from ttl_mm.zoo.load import load_backbone_state, load_into

CONFIG = Path(__file__).with_name('reid_config.py')


def evaluate_reid(
    weights: str,
    data_root: str,
    out_dir: str,
    *,
    reference_flip: bool = False,
    batch_size: int = 100,
    num_workers: int = 8,
    launcher: str = 'none',
) -> dict[str, float]:
    """Check the data, extract features of query and gallery, and rank.

    Args:
        weights: A checkpoint in any layout of :mod:`ttl_mm.zoo`, of any ResNet.
        data_root: SYSU-30k, Market-1501 or the like, see :func:`find_layout`.
        out_dir: For ``features.npy`` and logs.
        reference_flip: See :func:`ttl_mm.models.flip_features.combine_flip`.
        batch_size: Images at once.
        num_workers: Processes that read images.
        launcher: 'none', or 'pytorch' under torchrun.

    Returns:
        The figures of :func:`evaluate_retrieval`.

    Raises:
        UserError: The data or the checkpoint cannot give a meaningful result.
    """
    report = check_reid(data_root)
    print_log(f'{data_root}\n{report}', 'current')
    if not report.usable:
        raise UserError(f'{data_root} cannot be evaluated on:\n{report}')
    layout = find_layout(data_root)
    state = load_backbone_state(weights)
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    backbone = backbone_config(shapes)
    if backbone is None:
        raise UserError(f'{weights} holds a {architecture(shapes)}: a ResNet is needed.')
    cfg = Config.fromfile(CONFIG)
    cfg.model.backbone = backbone
    cfg.model.reference_flip = reference_flip
    cfg.test_dataloader.update(batch_size=batch_size, num_workers=num_workers)
    cfg.test_dataloader.dataset.update(
        data_root=str(layout.test), query=layout.query, gallery=layout.gallery
    )
    cfg.test_evaluator.out_dir = str(out_dir)
    cfg.work_dir, cfg.launcher = str(out_dir), launcher
    runner = RUNNERS.build(cfg)
    load_into(bare(runner.model).backbone, state)
    return {name.removeprefix('reid/'): value for name, value in runner.test().items()}


def draw_best(data_root: str, out_dir: str, path: str, queries: Sequence[int] = ()) -> None:
    """Draw the ten best matches for some queries, from the features that are in ``out_dir``.

    Args:
        data_root: As for :func:`evaluate_reid`.
        out_dir: As for :func:`evaluate_reid`, which has written ``features.npy`` there.
        path: The picture to write.
        queries: Which queries, counted from 0; eight of them, evenly spread, if empty.
    """
    layout = find_layout(data_root)
    test = ReIDTestSet(str(layout.test), layout.query, layout.gallery)
    ids, cams, n = (test.metainfo[key] for key in ('ids', 'cams', 'num_query'))
    features = np.load(Path(out_dir) / 'features.npy', mmap_mode='r')
    if len(features) != len(test):
        raise UserError(
            f'{out_dir}/features.npy has {len(features)} features, {data_root} {len(test)} images: '
            'evaluate again.'
        )
    if wrong := [q for q in queries if not 0 <= q < n]:
        raise UserError(f'queries {wrong} were asked for: there are the queries 0 to {n - 1}.')
    queries = list(queries) or np.unique(np.linspace(0, n - 1, 8).astype(int)).tolist()
    rankings = best_matches(
        features[:n], ids[:n], cams[:n], features[n:], ids[n:], cams[n:], queries
    )  # fmt: skip
    path_of = lambda index: test.get_data_info(index)['img_path']  # noqa: E731
    draw_matches(rankings, path_of, lambda g: path_of(n + g)).save(path)
