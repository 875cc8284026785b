"""Where the features of an analysis come from: a feature file, a backbone, or a whole model."""

from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.dataset import default_collate
from mmengine.model import revert_sync_batchnorm
from mmengine.registry import DefaultScope
from torch import Tensor
from torch.utils.data import DataLoader

from ttl_mm.checkpoint.coverage import load_state
from ttl_mm.checkpoint.input_settings import input_settings
from ttl_mm.checkpoint.load import resolve, tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.config import read_config
from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import labeled_folder
from ttl_mm.evaluation.feature_file import is_feature_file, read_features
from ttl_mm.evaluation.features import extract_features
from ttl_mm.evaluation.forward import evaluating, images_of, pooled, require_labels
from ttl_mm.evaluation.model import default_size, load_model
from ttl_mm.models import TTLAlgorithm
from ttl_mm.registry import MODELS


class Source(NamedTuple):
    """Features (N, D) with labels (N,); ``query`` and ``key`` where a head was looked at."""

    features: Tensor
    labels: Tensor
    query: Tensor | None = None
    key: Tensor | None = None


def from_model(checkpoint: str, config: str, data: str, size: int | None = None) -> Source:
    """What the head ranks: predictions of the online against projections of the target network.

    The images are not augmented and the networks are in evaluation mode.
    """
    cfg = read_config(config)
    with DefaultScope.overwrite_default_scope(cfg.get('default_scope', 'mmpretrain')):
        model = revert_sync_batchnorm(MODELS.build(cfg.model))
    if not isinstance(model, TTLAlgorithm):
        raise UserError(f'--head needs a TTLAlgorithm: {config} has model {type(model).__name__}.')
    content = read_checkpoint(resolve(checkpoint))
    load_state(model, tensors_of(content), checkpoint)
    trained = input_settings(content)
    size = size or default_size(model.backbone, trained.size if trained else None)
    dataset = labeled_folder(data, size, trained.bands if trained else None)
    model.to('cuda' if torch.cuda.is_available() else 'cpu')
    columns: list[tuple[Tensor, ...]] = []
    with evaluating(model):
        for batch in DataLoader(dataset, batch_size=128, collate_fn=default_collate):
            images = images_of(model.data_preprocessor, batch)
            maps = model.backbone(images)
            query, key = model.head.predict(model.neck(maps)[0]), model.project_target(images)
            labels = require_labels(batch['data_samples'])
            columns.append((pooled(maps)[-1].cpu(), labels, query.cpu(), key.cpu()))
    return Source(*(torch.cat(column) for column in zip(*columns)))


def open_source(
    source: str, out_dir: Path, data: str | None = None, config: str | None = None,
    head: bool = False, size: int | None = None,
) -> Source:  # fmt: skip
    """Features of a feature file, or of a checkpoint on the images of ``data``.

    The features of a checkpoint's backbone are kept in a feature file in ``out_dir``. With ``head``
    they are those of :func:`from_model`.
    """
    if is_feature_file(source):
        if head:
            raise UserError(f'{source} has features of a backbone: --head needs a checkpoint.')
        found = read_features(source)
    elif data is None:
        raise UserError(f'{source} is a checkpoint: name labeled images with --data DIR.')
    elif head:
        if config is None:
            raise UserError('--head looks at the whole model: name its config with --config.')
        return from_model(source, config, data, size)
    else:
        path = out_dir / f'{Path(source.rpartition("://")[2]).stem}.features'
        backbone, preprocessor, about = load_model(source, config)
        size = size or default_size(backbone, about.get('trained_size'))
        dataset = labeled_folder(data, size, about.get('bands'))
        found = extract_features(backbone, preprocessor, dataset, path, about)
    return Source(torch.tensor(found.features), torch.tensor(found.labels))
