"""Re-identification in mmengine's test loop, on any number of ranks."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from mmengine.dist import barrier, is_main_process
from mmengine.evaluator import BaseMetric

from ttl_mm.errors import UserError
from ttl_mm.evaluation.retrieval import evaluate_retrieval
from ttl_mm.registry import METRICS


@METRICS.register_module()
class RetrievalMetric(BaseMetric):
    """Rank-1, -5, -10 and mAP of :func:`evaluate_retrieval`, under ``reid/``.

    Needs samples with ``sample_idx`` and ``feature`` and a dataset like ``ttl_mm.ReIDTestSet``,
    whose metainfo has ``ids``, ``cams`` and ``num_query``. Every rank writes its features into one
    memory-mapped file, each to its place, so that nothing is gathered: 480,000 images are 3.9 GB.

    Args:
        out_dir: Folder for ``features.npy`` (N, D), the same for all ranks. The file is kept.
        device: Where the matrix product is computed.
        kwargs: Of mmengine's ``BaseMetric``.
    """

    default_prefix = 'reid'

    def __init__(self, out_dir: str, device: str = 'cpu', **kwargs) -> None:
        super().__init__(**kwargs)
        self.path = Path(out_dir) / 'features.npy'
        self.device = device
        self._features: np.ndarray | None = None

    def process(self, data_batch, data_samples: Sequence[dict]) -> None:
        """Write the features of one batch to their rows."""
        rows = [sample['sample_idx'] for sample in data_samples]
        features = torch.stack([sample['feature'] for sample in data_samples])  # (B, D)
        if self._features is None:
            shape = (len(self.dataset_meta['ids']), features.shape[1])
            if is_main_process():
                create_feature_file(self.path, shape)
            barrier()  # every rank has a first batch
            self._features = np.load(self.path, mmap_mode='r+')
        self._features[rows] = features.float().cpu().numpy()
        self.results += rows

    def evaluate(self, size: int) -> dict[str, float]:
        """Write out what this rank holds, then evaluate on the main one."""
        if self._features is not None:
            self._features.flush()
        metrics = super().evaluate(size)
        self._features = None
        return metrics

    def compute_metrics(self, results: list[int]) -> dict[str, float]:
        """Evaluate all features; ``results`` says which images have come."""
        ids, cams = self.dataset_meta['ids'], self.dataset_meta['cams']
        absent = len(ids) - len(set(results))
        if absent:
            raise UserError(
                f'{absent} of {len(ids)} images have no feature: test with a sampler that deals '
                'out every image (DefaultSampler with shuffle=False).'
            )
        features, queries = np.load(self.path, mmap_mode='r'), self.dataset_meta['num_query']
        query, gallery = slice(queries), slice(queries, None)
        return evaluate_retrieval(
            features[query], ids[query], cams[query],
            features[gallery], ids[gallery], cams[gallery],
            device=self.device,
        )  # fmt: skip


def create_feature_file(path: Path, shape: tuple[int, int]) -> None:
    """Make a float32 ``.npy`` file of this shape, its space on the disk reserved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    size, free = 4 * shape[0] * shape[1], shutil.disk_usage(path.parent).free
    if size > free:
        raise UserError(
            f'{path} needs {size:,} bytes for features of shape {shape}, {free:,} are free: '
            'choose another out_dir.'
        )
    np.lib.format.open_memmap(path, 'w+', np.float32, shape)
    if hasattr(os, 'posix_fallocate'):  # a disk that fills up later would kill us by SIGBUS
        with open(path, 'r+b') as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
