import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from ttl_mm.errors import UserError
from ttl_mm.tasks.reid.retrieval_metric import (
    RetrievalMetric,
    create_feature_file,
    evaluate_retrieval,
)

QUERIES, GALLERY, BATCH = 5, 18, 4
RNG = np.random.default_rng(0)
FEATURES = RNG.standard_normal((QUERIES + GALLERY, 6)).astype(np.float32)
META = {
    'ids': np.r_[1:6, np.resize(np.arange(-1, 6), GALLERY)],
    'cams': np.r_[np.full(QUERIES, 2), np.full(GALLERY, 1)],
    'num_query': QUERIES,
}
QUERY, REST = slice(QUERIES), slice(QUERIES, None)
EXPECTED = evaluate_retrieval(
    *(x[QUERY] for x in (FEATURES, META['ids'], META['cams'])),
    *(x[REST] for x in (FEATURES, META['ids'], META['cams'])),
)


def run_metric(folder, indices, size=QUERIES + GALLERY) -> dict:
    """Feed the images ``indices`` in batches, as a test loop does."""
    metric = RetrievalMetric(out_dir=str(folder), collect_dir=str(folder / 'collect'))
    metric.dataset_meta = META
    for start in range(0, len(indices), BATCH):
        batch = indices[start : start + BATCH]
        samples = [{'sample_idx': i, 'feature': torch.from_numpy(FEATURES[i])} for i in batch]
        metric.process({}, samples)
    return metric.evaluate(size)


def test_equals_evaluate_retrieval(tmp_path):
    found = run_metric(tmp_path, np.random.default_rng(1).permutation(QUERIES + GALLERY).tolist())
    assert found == {f'reid/{name}': value for name, value in EXPECTED.items()}
    np.testing.assert_array_equal(np.load(tmp_path / 'features.npy'), FEATURES)


def test_an_image_without_a_feature_is_an_error(tmp_path):
    with pytest.raises(UserError, match='1 of 23 images have no feature'):
        run_metric(tmp_path, list(range(QUERIES + GALLERY - 1)))


def rank_main(rank, folder):
    store = f'file://{folder}/store'
    dist.init_process_group('gloo', init_method=store, rank=rank, world_size=2)
    count = QUERIES + GALLERY
    # 23 images on two ranks: the first one again fills up, as DefaultSampler does it
    indices = [i % count for i in range(rank, count + 1, 2)]
    found = run_metric(folder, indices)
    assert found == {f'reid/{name}': value for name, value in EXPECTED.items()}
    dist.destroy_process_group()


def test_two_ranks_equal_one(tmp_path):
    mp.start_processes(rank_main, (tmp_path,), nprocs=2, start_method='fork')


def test_a_full_disk_is_named_and_leaves_no_file(tmp_path):
    with pytest.raises(UserError, match=r'features\.npy needs 8,000,000,000,000 bytes'):
        create_feature_file(tmp_path / 'features.npy', (1_000_000_000, 2000))
    assert not (tmp_path / 'features.npy').exists()
