"""Where the features of an analysis come from: a feature file, a backbone, or a whole model."""

from pathlib import Path
from typing import NamedTuple

import torch
from mmengine.dataset import default_collate
from mmengine.model import revert_sync_batchnorm
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from ttl_mm.checkpoint.coverage import load_state
from ttl_mm.checkpoint.load import resolve, tensors_of
from ttl_mm.checkpoint.read import read_checkpoint
from ttl_mm.config import read_config
from ttl_mm.datasets.image_folder import ImageFolder
from ttl_mm.errors import UserError
from ttl_mm.evaluation.data import evaluation_pipeline
from ttl_mm.evaluation.feature_file import is_feature_file, read_features
from ttl_mm.evaluation.features import extract_features
from ttl_mm.evaluation.forward import evaluating, pooled, require_labels
from ttl_mm.evaluation.model import default_size, load_model
from ttl_mm.registry import MODELS


class Source(NamedTuple):
    """Features (N, D) with labels (N,); ``query`` and ``key`` where a head was looked at."""

    features: Tensor
    labels: Tensor
    query: Tensor | None = None
    key: Tensor | None = None


def from_file(path: str | Path) -> Source:
    """A feature file, as ``ttl eval`` writes it."""
    found = read_features(path)
    return Source(torch.tensor(found.features), torch.tensor(found.labels))


def from_backbone(
    checkpoint: str, data: str, path: Path, config: str | None = None, size: int | None = None
) -> Source:
    """Pooled features of a checkpoint's backbone, kept in the feature file ``path``."""
    backbone, preprocessor, about = load_model(checkpoint, config)
    size = size or default_size(backbone)
    extract_features(backbone, preprocessor, labelled_folder(data, size), path, about)
    return from_file(path)


def from_model(
    checkpoint: str, config: str, data: str | Dataset, size: int | None = None
) -> Source:
    """What the head ranks: predictions of the online against projections of the target network.

    The images are not augmented and the networks are in evaluation mode.
    """
    cfg = read_config(config)
    model = revert_sync_batchnorm(build_in_scope(MODELS, cfg.model, cfg.default_scope))
    load_state(model, tensors_of(read_checkpoint(resolve(checkpoint))), checkpoint)
    if isinstance(data, str):
        data = labelled_folder(data, size or default_size(model.backbone))
    model.to('cuda' if torch.cuda.is_available() else 'cpu')
    columns: list[tuple[Tensor, ...]] = []
    with evaluating(model):
        for batch in DataLoader(data, batch_size=128, collate_fn=default_collate):
            images = first_view(model.data_preprocessor(batch, False)['inputs'])
            maps = model.backbone(images)
            query = model.head.predict(model.neck(maps)[0])
            key = model.project_target(images)
            labels = require_labels(batch['data_samples'])
            columns.append((pooled(maps)[-1].cpu(), labels, query.cpu(), key.cpu()))
    return Source(*(torch.cat(column) for column in zip(*columns)))


def labelled_folder(data: str, size: int) -> Dataset:
    """Images of a folder with one sub-folder per class, as the evaluation sees them."""
    return ImageFolder(data, evaluation_pipeline(size), with_label=True)


def build_in_scope(registry, config: dict, scope: str) -> nn.Module:
    """Build a part whose names are of another scope than the registry's."""
    with registry.switch_scope_and_registry(scope):
        return registry.build(config)


def first_view(inputs: Tensor | list[Tensor]) -> Tensor:
    """(N, C, H, W) of a batch with one view or several."""
    return inputs if isinstance(inputs, Tensor) else inputs[0]


def open_source(
    source: str,
    out_dir: Path,
    data: str | None = None,
    config: str | None = None,
    head: bool = False,
    size: int | None = None,
) -> Source:
    """Features of a feature file, or of a checkpoint on the images of ``data``."""
    if is_feature_file(source):
        return from_file(source)
    if data is None:
        raise UserError(f'{source} is a checkpoint: name labelled images with --data DIR.')
    if not head:
        name = source.rpartition('://')[2]
        return from_backbone(source, data, out_dir / f'{Path(name).stem}.features', config, size)
    if config is None:
        raise UserError('--head looks at the whole model: name its config with --config.')
    return from_model(source, config, data, size)
